"""A device trace: one conversion of a request's model on one device, traced and verified.

Three children: one traces; a second one has the eager model alone, and a third one the archive alone. What the first
one sends is recorded as its word only; the verdict comes from the other two. A fourth one has the archive as it was
traced, where it is served in another form, or where gradients are compared. No parent looks into the archive.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from service.domain.trace_request import Stage, TraceRequest
from service.protocol.messages import FailureReply
from service.protocol.tracer import File, LayerDone, Progress, Traced
from service.sandbox.child import Child, Exit
from service.sandbox.memory_file import open_memory_file
from service.storage.blobs import StagedBlob
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.exportability import Exportability
from tracehouse.contract.contract import Contract
from tracehouse.contract.size_coverage import SizeCoverage
from tracehouse.errors import TraceError
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from tracehouse.step_times import step
from workers.limits import TraceLimits
from workers.processes.children import Children
from workers.processes.eager import EagerProcess
from workers.processes.exits import error_of_failure, explain_model_exit, explain_upload_exit, translate_errors
from workers.processes.export_progress import ExportProgress
from workers.processes.tracer import TRACER, TracerProcess, TracerResult
from workers.progress import TraceProgress
from workers.verification.examples import ExampleRuns, run_examples
from workers.verification.model_processes import ModelProcesses
from workers.verification.verification import Verification, VerificationResult


@dataclass(frozen=True, eq=False)
class EarlierArchive:
    """An archive that was made of the request's submission before, and the contract that its check led to."""

    archive: StagedBlob
    contract: Contract


@dataclass(frozen=True, eq=False)
class DeviceResult:
    """What a device trace made and what was verified of it. `attempts` lists the conversions that were tried."""

    device: DeviceName
    conversion: Conversion
    tracer: TracerResult
    verification: VerificationResult
    exportability: Exportability | None
    attempts: Sequence[ConversionAttempt] = ()

    @property
    def check(self) -> TraceCheck:
        return self.verification.check

    @property
    def is_rejected(self) -> bool:
        return self.check.verdict is Verdict.REJECTED

    def with_findings(self, findings: Sequence[Finding]) -> Self:
        """Return the result with these findings in place of its own."""
        check = self.check.model_copy(update={"findings": [*findings]})
        return replace(self, verification=replace(self.verification, check=check))

    def with_coverage(self, coverage: Sequence[SizeCoverage]) -> Self:
        """Return the result with the coverage of the requested sizes, which may restrict it."""
        check = self.check.with_coverage(coverage)
        return replace(self, verification=replace(self.verification, check=check))

    def with_attempts(self, attempts: Sequence[ConversionAttempt]) -> Self:
        return replace(self, attempts=attempts)


class DeviceTrace:
    """`run` it once: its children end with it. `stage_file` gives files that stay until the attempt ends.

    With `earlier`, the check of that archive goes on, and no new one is made.
    """

    def __init__(
        self,
        request: TraceRequest,
        device: DeviceName,
        conversion: Conversion,
        children: Children,
        progress: TraceProgress,
        stage_file: Callable[[], StagedBlob],
        earlier: EarlierArchive | None = None,
    ) -> None:
        self._request = request
        self._device: DeviceName = device
        self._conversion = conversion
        self._children = children
        self._progress = progress
        self._stage_file = stage_file
        self._earlier = earlier
        self._budget_most_s = children.budget_most_s
        self._stack = ExitStack()  # until `run` ends
        self._is_loaded = False  # as the tracing child says of its model
        self._examples: Future[ExampleRuns] | None = None  # from when the archive is there

    def run(self) -> DeviceResult:
        """Raises TraceError."""
        with step("end of processes"), self._stack:
            with step("tracer"):
                tracer, exportability = self._trace()
            self._children.tracer_steps += tracer.traced.steps
            # From here on the archive is what its hash says, and nobody is left who could act on what is drawn.
            self._progress.report_stage(Stage.VERIFYING, 0.8)
            assert self._examples is not None  # as the archive came
            with step("verify: examples"):
                examples = self._examples.result()
            with step("verify: rest"):
                before = None if self._earlier is None else self._earlier.contract
                verified = Verification(examples, tracer.traced, before).run(tracer.offered)
        return DeviceResult(self._device, self._conversion, tracer, verified, exportability)

    def _trace(self) -> tuple[TracerResult, Exportability | None]:
        """Return what the tracing child leaves, once it has ended."""
        children, exportability = self._children, None
        with ExitStack() as stack:
            # Only the first conversion's prints go to the log: the others of mode auto would print the same again.
            printing = self._conversion == self._request.spec.conversion
            archive = None if self._earlier is None else self._earlier.archive
            archive_file = open_memory_file(stack, "archive") if archive is None else None
            opened = archive_file if archive is None else stack.enter_context(archive.open()).fileno()
            files = [] if opened is None else [opened]
            child = children.fork(stack, TRACER, self._device, *files, printing=printing)
            message = children.trace_message(
                self._device,
                self._conversion,
                children.limits.threads,
                has_archive=archive is not None,
                has_archive_file=archive_file is not None,
            )
            tracer = TracerProcess(
                child,
                message,
                children.limits,
                children.until,
                children.printed_log,
                self._stage_file,
                archive,
                archive_file,
            )
            try:
                with translate_errors(child, children.limits, children.cancellation, self._explain_exit):
                    tracer.start()
                    # Both load the model at a time, on one thread each. Later, this one would hold up the trace.
                    eager = children.start_eager(self._stack, self._device, self._conversion)
                    if archive is not None:
                        self._start_verification(eager, archive)
                    end = self._receive_all(tracer, eager)
                if isinstance(end, Traced) and self._request.spec.options.exportability and archive is None:
                    exportability = self._receive_exports(tracer, child, end)
            except BaseException:
                child.kill()
                raise
            finally:
                children.wait_for_exit(child)
            if isinstance(end, FailureReply):
                raise error_of_failure(end.failure, child, program=TRACER, trace_request=self._request.id)
        return tracer.result(end), exportability

    def _explain_exit(self, end: Exit, limits: TraceLimits) -> TraceError:
        is_upload = self._request.spec.source.archive is not None
        return (explain_upload_exit if is_upload and not self._is_loaded else explain_model_exit)(end, limits)

    def _receive_all(self, tracer: TracerProcess, eager: EagerProcess) -> Traced | FailureReply:
        while True:
            match message := tracer.receive():
                case LayerDone():
                    self._progress.report_layer(self._device, message.layer)
                case Progress():
                    self._progress.report_stage(message.stage, message.progress)
                    self._is_loaded = self._is_loaded or message.stage.is_after(Stage.LOADING)
                case File(name="archive"):
                    self._start_verification(eager, tracer.files["archive"])
                case Traced() | FailureReply():
                    return message

    def _receive_exports(self, tracer: TracerProcess, child: Child, traced: Traced) -> Exportability:
        """Return how far torch.export came. Whatever goes wrong costs no more than the exports: the trace is here."""
        self._progress.report_stage(Stage.EXPORTING, 0.8)
        children = self._children
        exports = ExportProgress(self._request.spec.calls, traced.form)
        try:
            with translate_errors(child, children.limits, children.cancellation, explain_model_exit):
                tracer.receive_exports(exports)
        except TraceError as error:
            child.kill()
            exports.cut_short(error.detail)
        return exports.exportability

    def _start_verification(self, eager: EagerProcess, archive: StagedBlob) -> None:
        """Start to run the examples on exactly the bytes that came and were hashed: nobody can write them any more."""
        spec = self._request.spec
        artifact, as_traced = self._children.fork_artifact(self._stack, self._device, archive), None
        artifact.start(spec, self._device)
        if spec.options.served_form is not None or spec.check.gradients:
            as_traced = self._children.fork_artifact(self._stack, self._device, archive)
            as_traced.start_as_traced(spec, self._device)
        executor = ThreadPoolExecutor(1, thread_name_prefix="verification")
        processes = ModelProcesses(spec, eager, artifact, as_traced, self._budget_most_s)
        self._examples = executor.submit(run_examples, processes)
        # Callbacks run last in, first out: the processes are killed, which wakes the thread, and it is waited for.
        self._stack.callback(executor.shutdown)
        for process in (eager, artifact, as_traced):
            if process is not None:
                self._stack.callback(process.kill)
