"""Stopping: a run on symbols that takes too long is stopped between two operators, or in the model's own code.

torch asks Python for sizes from C++ functions that let no exception through: an exception that is raised there ends
the process.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import sympy
import torch

_RETRY_S = 0.01
_DELAYS_MAX = 200  # after so many delays it is one long computation, and is stopped wherever it is
_NOT_THE_MODEL = tuple(
    str(Path(file).parent) + os.sep for file in (torch.__file__, sympy.__file__, os.__file__, __file__)
)

_delayed: list[Callable[[], None]] = []


def stop_if_late() -> None:
    """Call the alarm's handler now, if it was delayed. Runs call this between operators."""
    if _delayed:
        _delayed.pop()()


@contextmanager
def stop_between_operators() -> Iterator[None]:
    """Within it, the handler of SIGALRM is delayed while the process is where it must not raise."""
    handler = signal.getsignal(signal.SIGALRM)
    if not callable(handler):
        yield
        return
    delays = 0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal delays
        _delayed.clear()
        if delays < _DELAYS_MAX and not _is_in_model_code(frame):
            delays += 1
            interval = signal.getitimer(signal.ITIMER_REAL)[1]
            _delayed.append(functools.partial(_call_handler, handler, number, interval))
            signal.setitimer(signal.ITIMER_REAL, _RETRY_S, interval)
            return
        delays = 0
        handler(number, frame)

    signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        _delayed.clear()
        signal.signal(signal.SIGALRM, handler)


def _call_handler(handler: Callable[..., object], number: int, interval: float) -> None:
    """Call the handler, with the time between two alarms as it was before the delay."""
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    handler(number, sys._getframe())


def _is_in_model_code(frame: FrameType | None) -> bool:
    return frame is not None and not frame.f_code.co_filename.startswith(_NOT_THE_MODEL)
