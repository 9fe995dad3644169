"""Time limits: submitted code that takes too long is stopped by an alarm signal (SIGALRM)."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import torch

from tracehouse.differential.running_clock import CLOCK, TICK_S

# A timer that is set to 0 s never rings.
_LEAST_S = 0.0001
# A model's `except:` may catch the error and go on, and torch may drop it where it calls Python back. Chosen.
_RING_AGAIN_S = 0.1
# What sets up, tidies up or handles the error of an alarm is let end, for so long. Chosen: ours and torch's takes
# milliseconds, of a processor that a hundred others may share.
_TIDY_PROCESSOR_S = 2.0
_TIDY_S = 5.0
_ASK_AGAIN_S = 0.005  # how often it is asked whether that has ended; chosen
# An error in the middle of these is lost, or leaves a mode of torch, a patched function or half a module behind.
_TIDYING = frozenset({"__enter__", "__exit__", "__del__"})
_IMPORTS = "<frozen importlib._bootstrap>"
_CONTEXTS_MAX = 100  # submitted code may have an error that is its own context
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
    """Raise TooSlow in the body after `seconds` of wall-clock time, and again as long as the body goes on; None sets no
    limit. A body that ends after all ends with TooSlow.

    Time in which the process stands still does not count. Python runs signal handlers between its own instructions, so
    a long call into torch is only stopped when it returns.
    Raises ValueError outside the main thread, as `alarm` does.
    """
    if seconds is None:
        yield
        return

    def stop() -> None:
        raise TooSlow(f"it did not end within {seconds:.3g} s")

    with alarm(seconds, stop):
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

    `stood_s` is how long the process had stood still when `due` was computed. `frame` has the body. `error` is what
    `ring` raised. `put_off` is when the alarm was first put off: the clock, and the processor time of this thread.
    """

    due: float
    ring: Callable[[], None]
    again_s: float
    stood_s: float
    frame: FrameType | None
    pardons: int = _PARDONS_MAX
    error: BaseException | None = None
    put_off: tuple[float, float] | None = None

    def pardon(self) -> None:
        """Put off what is due by the time in which the process stood still."""
        stood_s = CLOCK.stood_s - self.stood_s
        if stood_s and self.pardons:
            self.due, self.stood_s, self.pardons = self.due + stood_s, CLOCK.stood_s, self.pardons - 1

    def waits_for(self, frame: FrameType | None, now: float) -> bool:
        """Whether it does not ring yet, because the body sets up or tidies up, or handles an error of an alarm."""
        if not (_is_tidying(frame, self.frame) or _is_handling_an_alarm()):
            self.put_off = None
            return False
        since, processor_s = self.put_off = self.put_off or (now, time.thread_time())
        return now - since <= _TIDY_S and time.thread_time() - processor_s <= _TIDY_PROCESSOR_S

    def sound(self, now: float) -> None:
        """Ring. Raises what `ring` raises."""
        self.put_off = None
        self.due = now + self.again_s
        _set_timer()  # first, because `ring` may raise
        try:
            self.ring()
        except BaseException as error:
            self.error = error
            raise


_set: list[_Alarm] = []  # the outermost first


@contextmanager
def alarm(seconds: float, ring: Callable[[], None], *, again_s: float = _RING_AGAIN_S) -> Iterator[None]:
    """Call `ring` after `seconds` of wall-clock time, and every `again_s` seconds from then on.

    `ring` runs inside the body, at whatever line is being executed, and may raise there. It waits where torch takes no
    error, and some seconds for imports, `__enter__`, `__exit__`, `__del__` and the handling of such an error. What it
    raised is raised by the body's end too, if the body caught it or made another error of it: what it computed since
    then may be wrong. An alarm that is set around this one still rings at its time. If the caller's program has set an
    alarm of its own, that rings after the body. Raises ValueError outside the main thread, where Python allows no
    signal handlers.
    """
    CLOCK.read()
    began, depth = CLOCK.monotonic(), len(_set)
    if not depth:
        callers_handler = signal.signal(signal.SIGALRM, _ring_due)
        callers_s, callers_again_s = signal.getitimer(signal.ITIMER_REAL)
    one = _Alarm(began + seconds, ring, again_s, CLOCK.stood_s, _find_body(sys._getframe()))
    try:
        _set.append(one)
        _set_timer()
        yield
    except Exception as error:
        if one.error is not None:
            raise one.error from error
        raise
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
        one.frame = None  # a cycle would keep the model's memory
    if one.error is not None:
        raise one.error


def _ring_due(_: int, frame: FrameType | None) -> None:
    """Ring the outermost alarm that is due, unless it waits, and set the timer for the next one."""
    if _is_asked_by_torch(frame):
        _set_timer()  # what is due rings as soon as a timer can
        return
    CLOCK.read()
    for each in _set:
        each.pardon()
    now = CLOCK.monotonic()
    one = next((one for one in _set if one.due <= now), None)
    if one is None:
        _set_timer()
    elif one.waits_for(frame, now):
        _set_timer(_ASK_AGAIN_S)
    else:
        one.sound(now)


def _find_body(frame: FrameType | None) -> FrameType | None:
    """Return the frame that enters the contexts of this file."""
    while frame is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
        frame = frame.f_back
    return frame


def _is_tidying(frame: FrameType | None, body: FrameType | None) -> bool:
    """Whether the line is part of what a `with` or an `import` of the body calls, or of what ends an object."""
    while frame is not None and frame is not body:
        if frame.f_code.co_name in _TIDYING or frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _is_handling_an_alarm() -> bool:
    """Whether an error that an alarm raised is being handled: by `except`, by `finally` or at the end of a `with`."""
    rung = {id(one.error) for one in _set if one.error is not None}
    error = sys.exception()
    for _ in range(_CONTEXTS_MAX if rung else 0):
        if error is None:
            break
        if id(error) in rung:
            return True
        error = error.__context__
    return False


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


def _set_timer(least_s: float = _LEAST_S) -> None:
    due = min((one.due for one in _set), default=float("inf"))
    # It rings each second, so that the clock sees where the process stood still.
    left_s = 0.0 if due == float("inf") else min(max(due - CLOCK.monotonic(), least_s), TICK_S)
    signal.setitimer(signal.ITIMER_REAL, left_s)
