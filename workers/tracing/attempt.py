"""An attempt: one trace request through its children, and what came of it. This side never looks into what it carries.

Three children: one traces; a second one has the eager model alone, and a third one the archive alone. What the first
one says is kept as what it says; the verdict is what the other two show.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

from pydantic import JsonValue

from service.domain.artifact import Artifact
from service.domain.errors import Failure, LimitExceeded, TraceError, TracerLost
from service.domain.outcome import Outcome, Succeeded
from service.domain.tensor import split
from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.bounds import CASES_MAX, CASES_MAX_BYTES, PRINTOUTS_MAX_BYTES
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Profile
from service.sandbox.messages import Case, Failed, File, Progress, Trace, Traced, from_tracer
from service.sandbox.zygote import Zygote
from service.storage.blobs import Staged
from service.storage.database import Store
from workers import golden
from workers.tracing.ends import END_S, malformed, not_traced, of_model, talking, told
from workers.tracing.limits import TraceLimits
from workers.tracing.log import PIECE_S, PrintedLog
from workers.tracing.sides import REFERENCE, RUNNER, ArtifactSide, EagerSide
from workers.tracing.verification import OfferedCase, Verification, Verified

PROGRAM = "workers.tracing.child"
_DEVICE = "cpu"
_LOG_TAIL_BYTES = 4000
_FILES = {"archive", "printouts"}
_STAGES = list(Stage)
# The submission is known to load by then, so that it is worth loading once more.
_WHEN_LOADED = Stage.TRACING

log = logging.getLogger(__name__)


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
        self._offered: list[OfferedCase] = []
        self._stage_reached = Stage.QUEUED
        self._eager: EagerSide | None = None
        self._verification: tuple[Verification, Future[None]]  # from when the archive is there
        self.exit: Exit | None = None

    def run(self) -> Outcome:
        try:
            with ExitStack() as held:
                said = self._traced(held)
                verified = self._verified(said)
                self._report(Stage.STORING, 0.95)
                return self._succeeded(said, verified, held)
        except TraceError as error:
            return not_traced(error)
        finally:
            self._log.flush()

    def _traced(self, held: ExitStack) -> Traced:
        """What the tracing child said last; its files are staged by then, and it is gone. Raises TraceError."""
        with ExitStack() as while_it_lives:
            child = self._forked(while_it_lives, PROGRAM, printing=True)
            try:
                with talking(child, self._limits, self._cancellation, of_model):
                    child.channel.send(self._trace(self._limits.threads).model_dump(mode="json"), until=self._until)
                    said = self._heard(child, held)
            except BaseException:
                child.kill()
                raise
            finally:
                self._let_end(child)
            if isinstance(said, Failed):
                if said.failure.slug == TracerLost.slug():
                    self._log_failure(said.failure, child)
                raise told(said.failure)
        if not self._is_answer(said):
            raise malformed("it traced something else than it was asked to")
        if self._staged.keys() != _FILES:
            raise malformed(f"of its files, {sorted(self._staged)} came")
        return said

    def _verified(self, said: Traced) -> Verified:
        """From here on the archive is what its hash says, and nobody is left who could act on what is drawn."""
        self._report(Stage.VERIFYING, 0.8)
        verification, prepared = self._verification
        prepared.result()
        return verification.run(said, self._offered)

    def _forked(
        self, held: ExitStack, program: str, *files: int, profile: Profile = "trace", printing: bool = False
    ) -> Child:
        """Only the tracing child's prints are the request's log: the others would say the same again."""
        if profile == "trace":
            # Opened once more for each child: of a file that two share, one would move the place where the other reads.
            opened = [held.enter_context(self._store.blobs.open(blob.digest)) for blob in self._request.files.values()]
            files = tuple(file.fileno() for file in opened)
        child = self._zygote.fork(
            program,
            self._limits.of_child(),
            files,
            profile=profile,
            on_log=self._log.write if printing else None,
            log_max_bytes=_LOG_TAIL_BYTES,  # the log above keeps the rest
        )
        held.enter_context(child)
        held.enter_context(self._cancellation.calls(child.kill))
        return child

    def _heard(self, child: Child, held: ExitStack) -> Traced | Failed:
        while True:
            if time.monotonic() > self._until:  # a child that never stops talking is never waited for
                raise TimeoutError
            header, size = self._next_header(child)
            match message := from_tracer.validate_python(header):
                case Progress():
                    self._reported(message, held)
                case File():
                    self._stage(child, message.name, size, held)
                case Case():
                    self._take_case(child, message, size)
                case Traced() | Failed():
                    return message

    def _trace(self, threads: int) -> Trace:
        return Trace(
            spec=self._request.spec,
            files={name: place for place, name in enumerate(self._request.files)},
            threads=threads,
            source_max_bytes=self._limits.source_max_bytes,
        )

    def _next_header(self, child: Child) -> tuple[dict[str, JsonValue], int]:
        """Meanwhile what was printed goes on its way."""
        while self._log.waiting and time.monotonic() < self._until:
            if child.channel.is_ready(min(self._until, time.monotonic() + PIECE_S)):
                break
            self._log.flush_if_due()
        return child.channel.receive_header(self._until)

    def _reported(self, said: Progress, held: ExitStack) -> None:
        if _STAGES.index(said.stage) > _STAGES.index(Stage.PRINTING):
            raise MalformedFrame(f"{said.stage.value} is not for it to say")
        self._report(said.stage, said.progress)
        if self._eager is None and _STAGES.index(said.stage) >= _STAGES.index(_WHEN_LOADED):
            self._start_eager(held)

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
        if name == "printouts" and size > PRINTOUTS_MAX_BYTES:
            raise _too_large("the printouts", PRINTOUTS_MAX_BYTES)
        if size + sum(staged.byte_size for staged in self._staged.values()) > self._limits.result_max_bytes:
            raise _too_large("the artifact", self._limits.result_max_bytes)
        self._staged[name] = held.enter_context(self._store.blobs.stage())
        child.channel.copy_body(self._staged[name], self._until)
        if name == "archive":
            self._start_verification(held)

    def _take_case(self, child: Child, said: Case, size: int) -> None:
        taken = sum(len(tensor.data) for case in self._offered for tensor in case.inputs)
        if len(self._offered) == CASES_MAX or size > CASES_MAX_BYTES - taken:
            raise MalformedFrame("it offers more cases than it may")
        if size != sum(spec.byte_size for spec in said.inputs):
            raise MalformedFrame("the bytes that came are not those of the case's inputs")
        body = child.channel.receive_body(self._until)
        self._offered.append(OfferedCase(said.name, said.method, split(said.inputs, body)))

    def _start_eager(self, held: ExitStack) -> EagerSide:
        """It loads while the tracing child works on, and is told nothing of what that one makes."""
        child = self._forked(held, REFERENCE)
        self._eager = EagerSide(child, self._limits, self._cancellation, self._until)
        self._eager.start(self._trace(self._limits.threads_per_side))
        return self._eager

    def _start_verification(self, held: ExitStack) -> None:
        """On exactly the bytes that came and were hashed: nobody can write them any more, and no others are taken."""
        eager = self._eager or self._start_eager(held)  # the tracing child need not have told of its stages
        with self._staged["archive"].open() as file:
            child = self._forked(held, RUNNER, file.fileno(), profile="infer")
        artifact = ArtifactSide(child, self._limits, self._cancellation, self._until)
        artifact.start(self._request.spec)
        verification = Verification(self._request.spec, eager, artifact)
        beside = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._verification = verification, beside.submit(verification.prepare)
        beside.submit(self._staged["archive"].sync)  # a failure shows again when it is committed
        held.callback(beside.shutdown)
        for side in (eager, artifact):  # before the line above: whatever the thread waits for ends by this
            held.callback(side.kill)

    def _let_end(self, child: Child) -> None:
        """A child that has said its last word prints what it still holds, and goes; else it is killed."""
        with suppress(TimeoutError):
            self.exit = child.wait(min(self._until, time.monotonic() + END_S))

    def _succeeded(self, said: Traced, verified: Verified, held: ExitStack) -> Succeeded:
        self._staged["golden"] = held.enter_context(self._store.blobs.stage())
        self._staged["golden"].write(golden.write(verified.golden))
        blobs = {name: staged.commit() for name, staged in self._staged.items()}
        spec = self._request.spec
        artifact = Artifact(
            device=_DEVICE,
            entrypoint=said.entrypoint,
            contract=verified.contract,
            check=verified.check,
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

    def _append_log(self, text: str) -> None:
        self._store.events.append(self._request.id, "log", {"text": text})


def _too_large(what: str, most: int) -> LimitExceeded:
    return LimitExceeded(f"{what} may have {most} bytes, and has more", limit="result", limit_bytes=most)
