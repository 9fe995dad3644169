"""Time limits: submitted code that takes too long is stopped by an alarm signal (SIGALRM)."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(BaseException):
    """A call or a trace took longer than its limit.

    It is no Exception, so that `except Exception` in a model's own code does not catch it.
    """


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TooSlow in the body after `seconds` of wall-clock time; None sets no limit.

    Python runs signal handlers between its own instructions, so a long call into torch is only stopped when it returns.
    Raises ValueError outside the main thread, as `alarm` does.
    """
    if seconds is None:
        yield
        return

    def stop() -> None:
        raise TooSlow

    with alarm(seconds, stop):
        yield


@contextmanager
def alarm(seconds: float, ring: Callable[[], None], *, again_s: float = 0.0) -> Iterator[None]:
    """Call `ring` after `seconds` of wall-clock time and, if `again_s` is not 0, every `again_s` seconds from then on.

    `ring` runs inside the body, at whatever line is being executed, and may raise there. On leaving, the alarm is off
    and the handler that was set before is back. Raises ValueError outside the main thread, where Python allows no
    signal handlers.
    """

    def handle(_: int, frame: FrameType | None) -> None:  # noqa: ARG001
        ring()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
