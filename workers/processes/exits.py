"""Exits: whose fault it is when a child of an attempt ends, hangs, or sends what it should not."""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
    GoldenCaseFailed,
    LimitExceeded,
    ModelCrashed,
    ModelExited,
    TraceError,
    TracerLost,
    by_slug,
)
from workers.limits import TraceLimits

# After a child's last message, or the end of its channel, only its interpreter is left to end, which takes a moment: a
# child that has not ended by then, on a busy machine too, stays on purpose.
EXIT_S = 5.0
_WHY_MAX_CHARACTERS = 1000

_FLOAT_IS_MISREAD = "Expected a value of type 'Optional[float]'"
_FLOAT_REMEDY = (
    "write `torch.constant_pad_nd(x, pad, value)` in place of `F.pad(x, pad, value=value)`, or pad with `math.inf`, "
    "with `torch.finfo(x.dtype).max` or with a number below 1e10. `value=float(...)` changes nothing"
)
_EVAL_REMEDY = (
    "if the model is in train mode, in which batch norm and dropout make an answer hard to repeat, call model.eval() "
    "before it is traced, or leave out `training`"
)

ExplainExit = Callable[[Exit, TraceLimits], TraceError]

log = logging.getLogger(__name__)


class AttemptStopped(Exception):
    """The attempt was asked to stop, and its children are gone."""


@contextmanager
def translate_errors(
    child: Child, limits: TraceLimits, cancellation: Cancellation, explain: ExplainExit
) -> Iterator[None]:
    """Turn whatever goes wrong with the child into a TraceError that says whose fault it is, or AttemptStopped."""
    try:
        yield
    except ChannelClosed:
        raise _error_of_exit(child, limits, cancellation, explain) from None
    except TimeoutError:
        raise _took_too_long(limits) from None
    except (MalformedFrame, ValidationError) as error:
        raise malformed_message(text_of(error)) from None


def malformed_message(why: str) -> ModelCrashed:
    """Return the error for a child that sent what it should not."""
    return ModelCrashed(f"a process of the trace did not say what it should: {why[:_WHY_MAX_CHARACTERS]}")


def explain_model_exit(end: Exit, limits: TraceLimits) -> TraceError:
    """Return why a child that ran the submitted code ended without a last message."""
    if (error := _sandbox_error(end, limits)) is not None:
        return error
    if end.signal is None:
        return ModelExited(f"the model code ended its process with status {end.code}", exit_status=end.code)
    name = _signal_name(end.signal)
    return ModelCrashed(f"the model code ended its process by {name}{_or_memory(end.signal)}", signal=name)


def explain_archive_exit(end: Exit, limits: TraceLimits) -> TraceError:
    """Return why a child that ran nothing but the archive ended without a last message."""
    if (error := _sandbox_error(end, limits)) is not None:
        return error
    how = _exit_text(end)
    return ArchiveUnusable(f"the archive ended the process that ran it {how}", ended=how)


def explain_unloadable(failure: Failure, *, may_be_in_train_mode: bool = False) -> ArchiveUnusable:
    """Return the error for an archive that torch does not load, or that does not give its golden cases again.

    torch.jit.save writes a whole float from 1e10 on without a dot. Where an operator takes a float or None,
    torch.jit.load then finds an integer. Of such operators, people call `pad` with such numbers.
    """
    detail = failure.detail
    if may_be_in_train_mode and failure.slug == GoldenCaseFailed.slug():
        return ArchiveUnusable(detail, remedy=_EVAL_REMEDY)
    if _FLOAT_IS_MISREAD not in detail:
        return ArchiveUnusable(detail)
    cause = "torch.jit.save wrote a float of 1e10 or more without a dot, and torch.jit.load took it for an integer"
    return ArchiveUnusable(f"{cause}: {detail}", remedy=_FLOAT_REMEDY)


def explain_upload_exit(end: Exit, limits: TraceLimits) -> TraceError:
    """Return why a child that was loading an uploaded archive ended without a last message."""
    if (error := _sandbox_error(end, limits)) is not None:
        return error
    how = _exit_text(end)
    return ArchiveUnreadable(f"the archive ended the process that loaded it {how}", ended=how)


def error_of_failure(failure: Failure, child: Child, **about: str) -> TraceError:
    """Return the error for a failure that a child reported. It is the model's fault, whatever the child says: only
    what the parent sees can be the service's.

    `about` is logged beside a failure of the program itself.
    """
    if failure.slug == TracerLost.slug():
        # Model code tampered with the program, or else the mistake is ours.
        extra = {**about, "detail": failure.detail, "log": child.log.text()}
        log.error("a process of the trace failed", extra=extra)
    error = by_slug().get(failure.slug)
    if error is None or not issubclass(error, TraceError):
        return malformed_message(f"it failed with {failure.slug[:80]!r}")
    if error.fault != "model":
        why = f"a process of the trace failed: {failure.detail[:_WHY_MAX_CHARACTERS]}"
        return _with_facts(ModelCrashed(why), failure)
    return _with_facts(error(failure.detail), failure)


def failed_outcome(error: TraceError) -> NotTraced:
    """Return the request's outcome where the model is at fault; raise a fault of the service's own, to be retried."""
    if error.fault == "service":
        raise error
    return NotTraced(failure=error.failure())


def _took_too_long(limits: TraceLimits) -> LimitExceeded:
    """Return the error for an attempt that is over its wall clock, with the budgets that have more time."""
    remedy = {}
    if limits.larger_budgets:
        larger = " or ".join(f"{name} ({wall_s:g} s)" for name, wall_s in limits.larger_budgets.items())
        remedy = {"remedy": f"send check.budget {larger}, smaller example inputs or a smaller model"}
    detail = f"the trace took longer than {limits.wall_s:g} s, which is the limit of budget {limits.budget}"
    return LimitExceeded(detail, limit="wall", limit_s=limits.wall_s, budget=limits.budget, **remedy)


def _error_of_exit(child: Child, limits: TraceLimits, cancellation: Cancellation, explain: ExplainExit) -> TraceError:
    end = None
    with suppress(TimeoutError):
        end = child.wait(time.monotonic() + EXIT_S)
    if cancellation.reason is not None:  # also where a busy machine takes long to end what was killed
        raise AttemptStopped from None
    return malformed_message("it closed its channel, and ran on") if end is None else explain(end, limits)


def _sandbox_error(end: Exit, limits: TraceLimits) -> TraceError | None:
    """Return the error for a lost zygote or an exceeded limit, which are the same whatever ran in the child."""
    if end.with_zygote:
        return TracerLost("the process that tracing processes are forked from died")
    if end.over is not None:
        return LimitExceeded(f"the model code used more {end.over} than it may", limit=end.over)
    # Past the limit the kernel sends SIGXCPU, and SIGKILL a second later to whoever ignores that.
    if end.signal == signal.SIGXCPU or (end.signal == signal.SIGKILL and end.cpu_s >= limits.cpu_s):
        detail = f"the model code used more than {limits.cpu_s} s of processor time"
        return LimitExceeded(detail, limit="cpu", limit_s=limits.cpu_s)
    return None


def _exit_text(end: Exit) -> str:
    return f"with status {end.code}" if end.signal is None else f"by {_signal_name(end.signal)}{_or_memory(end.signal)}"


def _or_memory(number: int) -> str:
    """Return the other cause of SIGKILL: a machine without memory."""
    return ", or the machine ran out of memory" if number == signal.SIGKILL else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _with_facts(error: TraceError, failure: Failure) -> TraceError:
    error.facts = failure.facts  # not as keywords: a child names them, and may take a parameter's name
    return error
