"""Stopping: a run on symbols that takes too long is stopped where Python can be.

torch asks the nodes of its symbols out of functions that let no exception through: one that is raised there ends the
process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torch.fx.experimental import sym_node

_AGAIN_S = 0.01
_TIMES_MAX = 200  # after which it is one long computation, and stopped wherever it is


@contextmanager
def stopped_beside_symbols() -> Iterator[None]:
    """What the alarm calls now is called a little later where it comes while a symbol is asked."""
    before = signal.getsignal(signal.SIGALRM)
    put_off = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal put_off
        if _is_of_a_symbol(frame) and put_off < _TIMES_MAX:
            put_off += 1
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, signal.getitimer(signal.ITIMER_REAL)[1])
            return
        put_off = 0
        if callable(before):
            before(number, frame)

    if not callable(before):
        yield
        return
    signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def _is_of_a_symbol(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == sym_node.__file__:
            return True
        frame = frame.f_back
    return False
