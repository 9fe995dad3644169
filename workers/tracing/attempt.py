"""An attempt: one trace request through one child, and what came of it. This side never looks into what it carries."""

import logging
import signal
import time
from contextlib import ExitStack, suppress

from pydantic import JsonValue, ValidationError

from service.domain.artifact import Artifact
from service.domain.errors import (
    Failure,
    LimitExceeded,
    ModelCrashed,
    ModelExited,
    TraceError,
    TracerLost,
    by_slug,
)
from service.domain.frozen import Frozen
from service.domain.outcome import NotTraced, Outcome, Succeeded
from service.domain.sizes import MIB
from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import BODY_MAX_BYTES, ChannelClosed, MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Limits
from service.sandbox.messages import Failed, File, Progress, Trace, Traced, from_tracer
from service.sandbox.zygote import Zygote
from service.storage.blobs import Staged
from service.storage.database import Store
from workers.tracing.log import PIECE_S, PrintedLog

PROGRAM = "workers.tracing.child"
_DEVICE = "cpu"
_END_S = 5.0
_WHY_MAX_CHARACTERS = 1000
_LOG_TAIL_BYTES = 4000
_FILES = {"archive", "printouts", "golden"}
_STAGES = list(Stage)

log = logging.getLogger(__name__)


class TraceLimits(Frozen):
    """What one attempt may use."""

    wall_s: float
    cpu_s: int
    memory_mib: int
    threads: int
    log_max_bytes: int
    source_max_bytes: int
    result_max_bytes: int = BODY_MAX_BYTES


class Stopped(Exception):
    """The attempt was told to stop, and has."""


class Attempt:
    """What came of it is an Outcome; a fault of the service's own is raised, and Stopped."""

    def __init__(
        self, request: TraceRequest, store: Store, zygote: Zygote, limits: TraceLimits, cancellation: Cancellation
    ) -> None:
        self._request = request
        self._store = store
        self._zygote = zygote
        self._limits = limits
        self._cancellation = cancellation
        self._until = time.monotonic() + limits.wall_s
        self._log = PrintedLog(self._append_log, limits.log_max_bytes)
        self._staged: dict[str, Staged] = {}
        self._stage_reached = Stage.QUEUED
        self.exit: Exit | None = None

    def run(self) -> Outcome:
        with ExitStack() as held:
            child = held.enter_context(self._forked(held))
            try:
                with self._cancellation.calls(child.kill):
                    said = self._heard(child, held)
                outcome = self._outcome(said)  # to disk, while the child takes itself down
                self._let_end(child)
                if isinstance(said, Failed) and said.failure.slug == TracerLost.slug():
                    self._log_failure(said.failure, child)
                return outcome
            except ChannelClosed:
                return _ended(self._end_of(child))
            except LimitExceeded as error:
                return _ended(error)
            except TimeoutError:
                return _ended(self._too_long())
            except (MalformedFrame, ValidationError) as error:
                return _ended(_malformed(str(error)))
            finally:
                self._log.flush()

    def _forked(self, held: ExitStack) -> Child:
        files = [held.enter_context(self._store.blobs.open(blob.digest)) for blob in self._request.files.values()]
        limits = Limits(
            address_space_mib=self._limits.memory_mib,
            cpu_s=self._limits.cpu_s,
            file_size_mib=max(1, self._limits.result_max_bytes // MIB),
        )
        return self._zygote.fork(
            PROGRAM,
            limits,
            [file.fileno() for file in files],
            on_log=self._log.write,
            log_max_bytes=_LOG_TAIL_BYTES,  # the log above keeps the rest
        )

    def _heard(self, child: Child, held: ExitStack) -> Traced | Failed:
        """The child's last message; its files are staged by then."""
        child.channel.send(self._trace().model_dump(mode="json"), until=self._until)
        while True:
            if time.monotonic() > self._until:  # a child that never stops talking is never waited for
                raise TimeoutError
            header, size = self._next_header(child)
            match message := from_tracer.validate_python(header):
                case Progress():
                    self._report(message.stage, message.progress)
                case File():
                    self._stage(child, message.name, size, held)
                case Traced() | Failed():
                    return message

    def _trace(self) -> Trace:
        return Trace(
            spec=self._request.spec,
            files={name: place for place, name in enumerate(self._request.files)},
            threads=self._limits.threads,
            source_max_bytes=self._limits.source_max_bytes,
        )

    def _next_header(self, child: Child) -> tuple[dict[str, JsonValue], int]:
        """Meanwhile what was printed goes on its way."""
        while self._log.waiting and time.monotonic() < self._until:
            if child.channel.is_ready(min(self._until, time.monotonic() + PIECE_S)):
                break
            self._log.flush_if_due()
        return child.channel.receive_header(self._until)

    def _report(self, stage: Stage, progress: float) -> None:
        """Forwards alone, or a child could fill the table of events."""
        if _STAGES.index(stage) <= _STAGES.index(self._stage_reached):
            raise MalformedFrame(f"{stage.value} came after {self._stage_reached.value}")
        self._stage_reached = stage
        self._log.flush()
        self._store.trace_requests.report(self._request.id, self._request.attempt, stage, progress)

    def _stage(self, child: Child, name: str, size: int, held: ExitStack) -> None:
        if name in self._staged:
            raise MalformedFrame(f"the file {name!r} came twice")
        if size + sum(staged.byte_size for staged in self._staged.values()) > self._limits.result_max_bytes:
            most = self._limits.result_max_bytes
            raise LimitExceeded(f"the artifact has more than {most} bytes", limit="result", limit_bytes=most)
        self._staged[name] = held.enter_context(self._store.blobs.stage())
        child.channel.copy_body(self._staged[name], self._until)

    def _let_end(self, child: Child) -> None:
        """A child that has said its last word prints what it still holds, and goes; else it is killed."""
        with suppress(TimeoutError):
            self.exit = child.wait(min(self._until, time.monotonic() + _END_S))

    def _outcome(self, said: Traced | Failed) -> Outcome:
        if isinstance(said, Failed):
            return _failed(said.failure)
        if not self._is_answer(said):
            return _ended(_malformed("it traced something else than it was asked to"))
        if self._staged.keys() != _FILES:
            return _ended(_malformed(f"of its files, {sorted(self._staged)} came"))
        blobs = {name: staged.commit() for name, staged in self._staged.items()}
        spec = self._request.spec
        artifact = Artifact(
            device=_DEVICE,
            entrypoint=said.entrypoint,
            contract=said.contract,
            check=said.check,
            archive=blobs["archive"],
            printouts=blobs["printouts"],
            golden=blobs["golden"],
            freeze=spec.options.freeze,
            submodules=said.submodules,
            parameters=said.parameters,
            buffers=said.buffers,
            missing_weights=said.missing_weights,
            unexpected_weights=said.unexpected_weights,
            versions=said.versions,
        )
        return Succeeded.of(spec, artifact)

    def _is_answer(self, said: Traced) -> bool:
        spec = self._request.spec
        return (said.entrypoint, set(said.contract.methods), said.check.tolerance) == (
            spec.source.entrypoint,
            set(spec.calls),
            spec.check.check_tolerance,
        )

    def _log_failure(self, failure: Failure, child: Child) -> None:
        """Of a tracer that failed: by model code that tampers with it, or else by a mistake of ours."""
        extra = {"trace_request": self._request.id, "detail": failure.detail, "log": child.log.text()}
        log.error("the tracer failed", extra=extra)

    def _end_of(self, child: Child) -> TraceError:
        """Why a child went without a last word."""
        try:
            self.exit = child.wait(time.monotonic() + _END_S)
        except TimeoutError:
            return _malformed("it closed its channel, and ran on")
        if self._cancellation.reason is not None:
            raise Stopped from None
        return _blame(self.exit, self._limits)

    def _too_long(self) -> LimitExceeded:
        wall_s = self._limits.wall_s
        return LimitExceeded(f"the trace took longer than {wall_s:g} s", limit="wall", limit_s=wall_s)

    def _append_log(self, text: str) -> None:
        self._store.events.append(self._request.id, "log", {"text": text})


def _blame(end: Exit, limits: TraceLimits) -> TraceError:
    if end.with_zygote:
        return TracerLost("the process that tracing processes are forked from died")
    if end.signal is None:
        return ModelExited(f"the model code ended its process with status {end.code}", exit_status=end.code)
    # Past the limit the kernel sends SIGXCPU, and SIGKILL a second later to whoever ignores that.
    if end.signal == signal.SIGXCPU or (end.signal == signal.SIGKILL and end.cpu_s >= limits.cpu_s):
        detail = f"the model code used more than {limits.cpu_s} s of processor time"
        return LimitExceeded(detail, limit="cpu", limit_s=limits.cpu_s)
    name = _signal_name(end.signal)
    # The kernel's answer to a machine without memory, too.
    killed = ", or the machine ran out of memory" if end.signal == signal.SIGKILL else ""
    return ModelCrashed(f"the model code ended its process by {name}{killed}", signal=name)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _ended(error: TraceError) -> NotTraced:
    """The end of a request, if the model is at fault; a fault of the service's own is raised, to be tried again."""
    if error.fault == "service":
        raise error
    return NotTraced(failure=error.failure())


def _failed(failure: Failure) -> NotTraced:
    """What a child says is the model's fault, whatever it says: only what its parent sees can be the service's."""
    error = by_slug().get(failure.slug)
    if error is None or not issubclass(error, TraceError):
        return _ended(_malformed(f"it failed with {failure.slug[:80]!r}"))
    if error.fault == "model":
        return NotTraced(failure=failure)
    why = f"the tracing process failed: {failure.detail[:_WHY_MAX_CHARACTERS]}"
    return NotTraced(failure=Failure(slug=ModelCrashed.slug(), detail=why, facts=failure.facts))


def _malformed(why: str) -> ModelCrashed:
    return ModelCrashed(f"the tracing process did not say what it should: {why[:_WHY_MAX_CHARACTERS]}")
