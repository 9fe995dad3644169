"""Time limits: submitted code that takes too long is stopped by an alarm signal (SIGALRM)."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(BaseException):
    """A call or a trace took longer than its limit. Not an Exception, so that no model catches it as one of its own."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TooSlow in the body after so many seconds of wall-clock time; None sets no limit.

    Python runs signal handlers between its own instructions, so a long call into torch is only stopped when it returns.
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
    """Call `ring` after so many seconds and, if `again_s` is not 0, every `again_s` seconds from then on.

    `ring` runs inside the body, at whatever line is being executed, and may raise there. On leaving, the alarm is off
    and the handler that was set before is back. Works in the main thread alone, as all signal handlers do.
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
