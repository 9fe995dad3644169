"""Stopping: a run on symbols that takes too long is stopped between two operators, or in the model's own code.

torch asks Python for sizes out of functions that let no exception through: one that is raised there ends the process.
"""

import functools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import sympy
import torch

_AGAIN_S = 0.01
_TIMES_MAX = 200  # after which it is one long computation, and stopped wherever it is
_NOT_THE_MODEL = tuple(
    str(Path(file).parent) + os.sep for file in (torch.__file__, sympy.__file__, os.__file__, __file__)
)

_late: list[Callable[[], None]] = []


def stop_if_late() -> None:
    """Called between operators: what the alarm is to call is called now."""
    if _late:
        _late.pop()()


@contextmanager
def stopped_between_operators() -> Iterator[None]:
    """What the alarm calls now is put off where it must not raise."""
    before = signal.getsignal(signal.SIGALRM)
    if not callable(before):
        yield
        return
    put_off = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal put_off
        _late.clear()
        if put_off < _TIMES_MAX and not _is_of_the_model(frame):
            put_off += 1
            interval = signal.getitimer(signal.ITIMER_REAL)[1]
            _late.append(functools.partial(_called, before, number, interval))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S, interval)
            return
        put_off = 0
        before(number, frame)

    signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        _late.clear()
        signal.signal(signal.SIGALRM, before)


def _called(handler: Callable[..., object], number: int, interval: float) -> None:
    """With the alarms as far apart as they were."""
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    handler(number, None)


def _is_of_the_model(frame: FrameType | None) -> bool:
    return frame is not None and not frame.f_code.co_filename.startswith(_NOT_THE_MODEL)
