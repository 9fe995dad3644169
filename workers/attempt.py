"""An attempt: one trace request run through its children to an outcome.

The model is traced for each device, one after the other, and every trace must succeed. Mode eager traces nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from service.domain.errors import StorageQuotaExceeded
from service.domain.outcome import NotTraced, Outcome, RanEagerly, Succeeded
from service.domain.trace_request import Stage, TraceRequest
from service.environments.environments import Environments
from service.sandbox.cancellation import Cancellation
from service.sandbox.child import Exit
from service.sandbox.zygote import Zygote
from service.storage.blobs import StagedBlob
from service.storage.database import Store
from tracehouse.differential.named_budgets import budget_class
from tracehouse.errors import TraceError
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from tracehouse.step_times import StepTime, StepTimes, record, step
from workers import auto_mode, buckets, eager_run
from workers.artifact_builder import ArtifactBuilder
from workers.attempt_record import AttemptRecord
from workers.device_trace import DeviceResult, DeviceTrace, EarlierArchive
from workers.further_check import FurtherCheck
from workers.limits import TraceLimits
from workers.missing_packages import name_environments
from workers.printed_log import PrintedLog
from workers.processes.artifact import RUNNER
from workers.processes.children import Children
from workers.processes.eager import REFERENCE
from workers.processes.exits import failed_outcome
from workers.processes.packer import PACKER
from workers.processes.tracer import TRACER
from workers.progress import TraceProgress
from workers.requested_sizes import judge_coverage

# What the zygote of attempts has to import: first what makes it warm, then the programs that it is asked to fork.
MODULES = ("workers.programs.tracer_warmup", TRACER, REFERENCE, RUNNER, PACKER)


@dataclass(frozen=True)
class AttemptTimes:
    """Where the time of an attempt went: its own steps, those that its tracers report, and each program's processor
    time in seconds. The step "tracer" is the time in which a tracer was waited for."""

    steps: Sequence[StepTime]
    tracer_steps: Sequence[StepTime]
    processor_s: Mapping[str, float]


class Attempt:
    """One attempt at a trace request, which is run once.

    `store` has the artifact that the request continues; a request that continues none needs no store.
    """

    def __init__(
        self,
        request: TraceRequest,
        record: AttemptRecord,
        zygote: Zygote,
        environments: Environments,
        limits: TraceLimits,
        cancellation: Cancellation,
        store: Store | None = None,
    ) -> None:
        limits = limits.of_budget(budget_class(request.spec.check))
        self._request = request
        self._record = record
        self._store = store
        self._environments = environments
        self._printed_log = PrintedLog(record.append_log, limits.log_max_bytes)
        packages = environments.packages_of(request.environment)
        self._children = Children(request, record.blobs, zygote, packages, limits, cancellation, self._printed_log)
        self._progress = TraceProgress(request, record, self._printed_log)
        self._times = StepTimes()
        self._stack = ExitStack()  # staged files, until `run` ends

    @property
    def exits(self) -> list[Exit]:
        """The exits of the children that ran the submitted code for the request itself."""
        return self._children.exits

    @property
    def times(self) -> AttemptTimes:
        """What the attempt took so far, step by step and process by process."""
        return AttemptTimes(self._times.steps, self._children.tracer_steps, self._children.processor_s)

    def run(self) -> Outcome:
        """Return the outcome. Raises AttemptStopped, and the service's own faults."""
        try:
            with record(self._times), step("rest"), self._stack, self._hold_environment(), self._children:
                return self._work()
        except TraceError as error:
            return failed_outcome(name_environments(error, self._environments, self._request.environment))
        except StorageQuotaExceeded as error:
            return NotTraced(failure=error.failure())
        finally:
            self._printed_log.end()

    def _work(self) -> Outcome:
        if self._request.spec.mode == "eager":
            return self._run_eagerly()
        builder = ArtifactBuilder(self._request, self._children, self._stage_file)
        if self._request.continues is not None:
            assert self._store is not None
            return FurtherCheck(self._request, self._store, builder, self._stage_file).run(self._go_on)
        return self._trace(builder)

    def _trace(self, builder: ArtifactBuilder) -> Succeeded:
        spec = self._request.spec
        results = [one for index, device in enumerate(spec.devices) for one in self._trace_on(device, index)]
        self._progress.report_stage(Stage.STORING, 0.95)
        return Succeeded.of(spec, [builder.build(result) for result in results])

    def _go_on(self, device: DeviceName, conversion: Conversion, earlier: EarlierArchive) -> DeviceResult:
        """Return what a further check of an archive found."""
        self._progress.begin_device(0)
        result = self._convert(device, conversion, earlier)
        self._progress.report_stage(Stage.STORING, 0.95)
        return result

    def _trace_on(self, device: DeviceName, index: int) -> list[DeviceResult]:
        """Return the device's result, or one for each of its buckets."""
        spec = self._request.spec
        self._progress.begin_device(index)
        # The artifacts of all buckets cover the requested sizes together; without buckets, each conversion does alone.
        convert = partial(self._convert if spec.buckets else self._convert_whole, device)
        try:
            result = auto_mode.find_best(convert) if spec.mode == "auto" else convert(spec.conversion)
            results = buckets.make_buckets(result, spec, convert, self._children.until)
            return judge_coverage(results, spec) if spec.buckets else results
        except TraceError as error:
            if len(spec.devices) > 1:
                error.facts = {**error.facts, "device": device}
            raise

    def _convert(
        self, device: DeviceName, conversion: Conversion, earlier: EarlierArchive | None = None
    ) -> DeviceResult:
        self._progress.begin_conversion()
        trace = DeviceTrace(
            self._request, device, conversion, self._children, self._progress, self._stage_file, earlier
        )
        return trace.run()

    def _convert_whole(self, device: DeviceName, conversion: Conversion) -> DeviceResult:
        """Return the result of a conversion that is to cover the requested sizes alone."""
        [result] = judge_coverage([self._convert(device, conversion)], self._request.spec)
        return result

    def _run_eagerly(self) -> RanEagerly:
        returned = eager_run.run(self._request.spec, self._children)
        self._progress.report_stage(Stage.STORING, 0.95)
        outputs = self._stage_file()
        eager_run.write(returned, outputs)
        return RanEagerly(outputs=outputs.commit())

    def _hold_environment(self) -> AbstractContextManager[object]:
        return self._environments.hold(self._request.environment)

    def _stage_file(self) -> StagedBlob:
        return self._stack.enter_context(self._record.stage_file())
