"""Time limits: submitted code that takes too long is stopped by an alarm signal (SIGALRM)."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import torch

from tracehouse.differential.running_clock import CLOCK, TICK_S

# A timer that is set to 0 s never rings.
_LEAST_S = 0.0001
# A model's `except:` may catch the error and go on. Chosen: what cleans up after an error takes less.
_UNLESS_CAUGHT_S = 2.0
# Where torch's own code in Python is.
_TORCH = os.path.dirname(torch.__file__) + os.sep
_PARDONS_MAX = 3  # so often may the process stand still under one limit; chosen
_AGAIN = 0.1  # how often processor time is looked at, as a fraction of its limit; a choice


class TooSlow(BaseException):
    """A call or a trace took longer than its limit.

    It is no Exception, so that `except Exception` in a model's own code does not catch it.
    """


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TooSlow in the body after `seconds` of wall-clock time, and again as long as the body catches it; None sets
    no limit.

    Time in which the process stands still does not count. Python runs signal handlers between its own instructions, so
    a long call into torch is only stopped when it returns.
    Raises ValueError outside the main thread, as `alarm` does.
    """
    if seconds is None:
        yield
        return

    def stop() -> None:
        raise TooSlow(f"it did not end within {seconds:.3g} s")

    with alarm(seconds, stop, again_s=_UNLESS_CAUGHT_S):
        yield


@contextmanager
def processor_time_limit(seconds: float, *, patience: float) -> Iterator[None]:
    """Raise TooSlow in the body after `seconds` of processor time, or `patience` times as many by the clock.

    With processor time, a busy machine stops what an idle one stops. Raises ValueError outside the main thread, as
    `alarm` does.
    """
    began, began_processor_s = CLOCK.read(), time.thread_time()

    def stop_if_over() -> None:
        used_s = max(time.thread_time() - began_processor_s, (CLOCK.read() - began) / patience)
        if used_s >= seconds:
            raise TooSlow(f"it did not end within {seconds:.3g} s of processor time")

    with alarm(max(seconds, _LEAST_S), stop_if_over, again_s=max(seconds * _AGAIN, _LEAST_S)):
        yield


@dataclass
class _Alarm:
    """One alarm that is set: when it rings next, by time.monotonic, and how many seconds later again.

    `stood_s` is how long the process had stood still when `due` was computed.
    """

    due: float
    ring: Callable[[], None]
    again_s: float
    stood_s: float
    pardons: int = _PARDONS_MAX

    def pardon(self) -> None:
        """Put off what is due by the time in which the process stood still."""
        stood_s = CLOCK.stood_s - self.stood_s
        if stood_s and self.pardons:
            self.due, self.stood_s, self.pardons = self.due + stood_s, CLOCK.stood_s, self.pardons - 1


_set: list[_Alarm] = []  # the outermost first


@contextmanager
def alarm(seconds: float, ring: Callable[[], None], *, again_s: float = 0.0) -> Iterator[None]:
    """Call `ring` after `seconds` of wall-clock time and, if `again_s` is not 0, every `again_s` seconds from then on.

    `ring` runs inside the body, at whatever line is being executed, and may raise there; but for lines in which torch
    takes no error, where it waits for the next one. An alarm that is set around
    this one still rings at its time. If the caller's program has set an alarm of its own, that rings after the body.
    Raises ValueError outside the main thread, where Python allows no signal handlers.
    """
    CLOCK.read()
    began, depth = CLOCK.monotonic(), len(_set)
    if not depth:
        callers_handler = signal.signal(signal.SIGALRM, _ring_due)
        callers_s, callers_again_s = signal.getitimer(signal.ITIMER_REAL)
    try:
        _set.append(_Alarm(began + seconds, ring, again_s, CLOCK.stood_s))
        _set_timer()
        yield
    finally:
        # First, and without a call before it, because an alarm can ring in any call. Alarms inside this one go too:
        # if this one rang while they were left, they are still here.
        del _set[depth:]
        _set_timer()
        if not depth:
            signal.signal(signal.SIGALRM, callers_handler)
            if callers_s:
                left_s = max(callers_s - (CLOCK.monotonic() - began), _LEAST_S)
                signal.setitimer(signal.ITIMER_REAL, left_s, callers_again_s)


def _ring_due(_: int, frame: FrameType | None) -> None:
    """Ring the outermost alarm that is due, and set the timer for the next one first, because `ring` may raise."""
    if _is_asked_by_torch(frame):
        _set_timer()  # what is due rings as soon as a timer can
        return
    CLOCK.read()
    for each in _set:
        each.pardon()
    now = CLOCK.monotonic()
    one = next((one for one in _set if one.due <= now), None)
    if one is not None:
        one.due = now + one.again_s if one.again_s else float("inf")
    _set_timer()
    if one is not None:
        one.ring()


def _is_asked_by_torch(frame: FrameType | None) -> bool:
    """Whether the line is one of torch's answers to what kind of object something is.

    torch asks that from C++ too, and takes an error for a yes: `jit.trace` then reads a tensor as a generator, and the
    process ends with a segmentation fault (torch 2.13).
    """
    while frame is not None and frame.f_code.co_filename.startswith(_TORCH):
        if frame.f_code.co_name == "__instancecheck__":
            return True
        frame = frame.f_back
    return False


def _set_timer() -> None:
    due = min((one.due for one in _set), default=float("inf"))
    # It rings each second, so that the clock sees where the process stood still.
    left_s = 0.0 if due == float("inf") else min(max(due - CLOCK.monotonic(), _LEAST_S), TICK_S)
    signal.setitimer(signal.ITIMER_REAL, left_s)
