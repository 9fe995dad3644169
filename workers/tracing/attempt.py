"""An attempt: one trace request through its children, and what came of it. This side never looks into what it carries.

Three children: one traces; a second one has the eager model alone, and a third one the archive alone. What the first
one says is kept as what it says; the verdict is what the other two show.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

from service.domain.artifact import Artifact
from service.domain.errors import Failure, TraceError, TracerLost
from service.domain.outcome import Outcome, Succeeded
from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.bounds import MESSAGE_MAX_BYTES
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Child, Exit
from service.sandbox.limits import Profile
from service.sandbox.messages import Failed, File, Progress, Trace, Traced
from service.sandbox.zygote import Zygote
from service.storage.blobs import Staged
from service.storage.database import Store
from workers import golden
from workers.tracing.ends import END_S, not_traced, of_model, talking, told
from workers.tracing.limits import TraceLimits
from workers.tracing.log import PrintedLog
from workers.tracing.sides import REFERENCE, RUNNER, ArtifactSide, EagerSide
from workers.tracing.tracer import TRACER, HandedOver, TracerSide
from workers.tracing.verification import Prepared, Sides, Verification, Verified, prepare

_DEVICE = "cpu"
_LOG_TAIL_BYTES = 4000
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
        self._stage_reached = Stage.QUEUED
        self._held = ExitStack()  # until `run` ends
        self._eager: EagerSide | None = None
        self._prepared: Future[Prepared]  # from when the archive is there
        self.exit: Exit | None = None

    def run(self) -> Outcome:
        try:
            with self._held:
                handed_over = self._traced()
                verified = self._verified(handed_over)
                self._report(Stage.STORING, 0.95)
                return self._succeeded(handed_over, verified)
        except TraceError as error:
            return not_traced(error)
        finally:
            self._log.flush()

    def _traced(self) -> HandedOver:
        """What the tracing child leaves, when it is gone. Raises TraceError."""
        with ExitStack() as while_it_lives:
            child = self._forked(while_it_lives, TRACER, printing=True)
            request = self._trace(self._limits.threads)
            tracer = TracerSide(child, request, self._limits, self._until, self._log, self._staged)
            try:
                with talking(child, self._limits, self._cancellation, of_model):
                    tracer.start()
                    said = self._heard(tracer)
            except BaseException:
                child.kill()
                raise
            finally:
                self._let_end(child)
            if isinstance(said, Failed):
                if said.failure.slug == TracerLost.slug():
                    self._log_failure(said.failure, child)
                raise told(said.failure)
        return tracer.handed_over(said)

    def _heard(self, tracer: TracerSide) -> Traced | Failed:
        while True:
            match said := tracer.hear():
                case Progress():
                    self._report(said.stage, said.progress)
                    if self._eager is None and _STAGES.index(said.stage) >= _STAGES.index(_WHEN_LOADED):
                        self._start_eager()
                case File(name="archive"):
                    self._start_verification(tracer.files["archive"])
                case Traced() | Failed():
                    return said

    def _verified(self, handed_over: HandedOver) -> Verified:
        """From here on the archive is what its hash says, and nobody is left who could act on what is drawn."""
        self._report(Stage.VERIFYING, 0.8)
        return Verification(self._prepared.result(), handed_over.traced).run(handed_over.offered)

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
            header_max_bytes=MESSAGE_MAX_BYTES,
        )
        held.enter_context(child)
        held.enter_context(self._cancellation.calls(child.kill))
        return child

    def _trace(self, threads: int) -> Trace:
        return Trace(
            spec=self._request.spec,
            files={name: place for place, name in enumerate(self._request.files)},
            threads=threads,
            source_max_bytes=self._limits.source_max_bytes,
        )

    def _report(self, stage: Stage, progress: float) -> None:
        """Forwards alone, or a child could fill the table of events."""
        if _STAGES.index(stage) <= _STAGES.index(self._stage_reached):
            raise MalformedFrame(f"{stage.value} came after {self._stage_reached.value}")
        self._stage_reached = stage
        self._log.flush()
        self._store.trace_requests.report(self._request.id, self._request.attempt, stage, progress)

    def _start_eager(self) -> EagerSide:
        """It loads while the tracing child works on, and is told nothing of what that one makes."""
        child = self._forked(self._held, REFERENCE)
        self._eager = EagerSide(child, self._limits, self._cancellation, self._until)
        self._eager.start(self._trace(self._limits.threads_per_side))
        return self._eager

    def _start_verification(self, archive: Staged) -> None:
        """On exactly the bytes that came and were hashed: nobody can write them any more, and no others are taken."""
        eager = self._eager or self._start_eager()  # the tracing child need not have told of its stages
        with archive.open() as file:
            child = self._forked(self._held, RUNNER, file.fileno(), profile="infer")
        artifact = ArtifactSide(child, self._limits, self._cancellation, self._until)
        artifact.start(self._request.spec)
        # One thread: the examples first, and the disk beside all that follows. A failure there shows in the commit.
        beside = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._prepared = beside.submit(prepare, Sides(self._request.spec, eager, artifact))
        beside.submit(archive.sync)
        # Callbacks run last in, first out: the sides are killed, which wakes the thread, and then it is waited for.
        self._held.callback(beside.shutdown)
        for side in (eager, artifact):
            self._held.callback(side.kill)

    def _staged(self) -> Staged:
        return self._held.enter_context(self._store.blobs.stage())

    def _let_end(self, child: Child) -> None:
        """A child that has said its last word prints what it still holds, and goes; else it is killed."""
        with suppress(TimeoutError):
            self.exit = child.wait(min(self._until, time.monotonic() + END_S))

    def _succeeded(self, handed_over: HandedOver, verified: Verified) -> Succeeded:
        cases = self._staged()
        cases.write(golden.write(verified.golden))
        blobs = {name: staged.commit() for name, staged in {**handed_over.files, "golden": cases}.items()}
        spec, said = self._request.spec, handed_over.traced
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

    def _log_failure(self, failure: Failure, child: Child) -> None:
        """Of a tracer that failed: by model code that tampers with it, or else by a mistake of ours."""
        extra = {"trace_request": self._request.id, "detail": failure.detail, "log": child.log.text()}
        log.error("the tracer failed", extra=extra)

    def _append_log(self, text: str) -> None:
        self._store.events.append(self._request.id, "log", {"text": text})
