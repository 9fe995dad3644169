"""Ends: whose fault it is when a child of an attempt ends, hangs, or does not say what it should."""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from service.domain.outcome import NotTraced
from service.protocol.bounds import text_of
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import ChannelClosed, MalformedFrame
from service.sandbox.child import Child, Exit
from tracehouse.errors import (
    ArchiveUnreadable,
    ArchiveUnusable,
    Failure,
    LimitExceeded,
    ModelCrashed,
    ModelExited,
    TraceError,
    TracerLost,
    by_slug,
)
from workers.limits import TraceLimits

# After a child's last word, or its channel's end, nothing is left but its interpreter's own end, which takes a moment:
# what has not ended by then, on a busy machine too, stays on purpose.
END_S = 5.0
_WHY_MAX_CHARACTERS = 1000

Blame = Callable[[Exit, TraceLimits], TraceError]

log = logging.getLogger(__name__)


class Stopped(Exception):
    """The attempt was told to stop, and has."""


@contextmanager
def talking(child: Child, limits: TraceLimits, cancellation: Cancellation, blame: Blame) -> Iterator[None]:
    """Whatever goes wrong with the child leaves as a TraceError that says whose fault it is, or as Stopped."""
    try:
        yield
    except ChannelClosed:
        raise _end_of(child, limits, cancellation, blame) from None
    except TimeoutError:
        wall_s = limits.wall_s
        raise LimitExceeded(f"the trace took longer than {wall_s:g} s", limit="wall", limit_s=wall_s) from None
    except (MalformedFrame, ValidationError) as error:
        raise malformed(text_of(error)) from None


def malformed(why: str) -> ModelCrashed:
    return ModelCrashed(f"a process of the trace did not say what it should: {why[:_WHY_MAX_CHARACTERS]}")


def of_model(end: Exit, limits: TraceLimits) -> TraceError:
    """Why a child that ran the submitted code went without a last word."""
    if (error := _of_sandbox(end, limits)) is not None:
        return error
    if end.signal is None:
        return ModelExited(f"the model code ended its process with status {end.code}", exit_status=end.code)
    name = _signal_name(end.signal)
    return ModelCrashed(f"the model code ended its process by {name}{_or_memory(end.signal)}", signal=name)


def of_archive(end: Exit, limits: TraceLimits) -> TraceError:
    """The same of one that ran the archive alone."""
    if (error := _of_sandbox(end, limits)) is not None:
        return error
    how = _how(end)
    return ArchiveUnusable(f"the archive ended the process that ran it {how}", ended=how)


def of_upload(end: Exit, limits: TraceLimits) -> TraceError:
    """The same of one that was loading an uploaded archive."""
    if (error := _of_sandbox(end, limits)) is not None:
        return error
    how = _how(end)
    return ArchiveUnreadable(f"the archive ended the process that loaded it {how}", ended=how)


def told(failure: Failure, child: Child, **about: str) -> TraceError:
    """What a child says is the model's fault, whatever it says: only what its parent sees can be the service's.

    `about` goes into the log beside a failure of the program itself.
    """
    if failure.slug == TracerLost.slug():
        # By model code that tampers with it, or else by a mistake of ours.
        extra = {**about, "detail": failure.detail, "log": child.log.text()}
        log.error("a process of the trace failed", extra=extra)
    error = by_slug().get(failure.slug)
    if error is None or not issubclass(error, TraceError):
        return malformed(f"it failed with {failure.slug[:80]!r}")
    if error.fault != "model":
        why = f"a process of the trace failed: {failure.detail[:_WHY_MAX_CHARACTERS]}"
        return _with_facts(ModelCrashed(why), failure)
    return _with_facts(error(failure.detail), failure)


def not_traced(error: TraceError) -> NotTraced:
    """The end of a request, if the model is at fault; a fault of the service's own is raised, to be tried again."""
    if error.fault == "service":
        raise error
    return NotTraced(failure=error.failure())


def _end_of(child: Child, limits: TraceLimits, cancellation: Cancellation, blame: Blame) -> TraceError:
    try:
        end = child.wait(time.monotonic() + END_S)
    except TimeoutError:
        return malformed("it closed its channel, and ran on")
    if cancellation.reason is not None:
        raise Stopped from None
    return blame(end, limits)


def _of_sandbox(end: Exit, limits: TraceLimits) -> TraceError | None:
    """What is the same whatever ran in it: a lost zygote, or a limit."""
    if end.with_zygote:
        return TracerLost("the process that tracing processes are forked from died")
    if end.over is not None:
        return LimitExceeded(f"the model code used more {end.over} than it may", limit=end.over)
    # Past the limit the kernel sends SIGXCPU, and SIGKILL a second later to whoever ignores that.
    if end.signal == signal.SIGXCPU or (end.signal == signal.SIGKILL and end.cpu_s >= limits.cpu_s):
        detail = f"the model code used more than {limits.cpu_s} s of processor time"
        return LimitExceeded(detail, limit="cpu", limit_s=limits.cpu_s)
    return None


def _how(end: Exit) -> str:
    return f"with status {end.code}" if end.signal is None else f"by {_signal_name(end.signal)}{_or_memory(end.signal)}"


def _or_memory(number: int) -> str:
    """SIGKILL is the kernel's answer to a machine without memory, too."""
    return ", or the machine ran out of memory" if number == signal.SIGKILL else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _with_facts(error: TraceError, failure: Failure) -> TraceError:
    error.facts = failure.facts  # not as keywords: a child names them, and may take a parameter's name
    return error
