"""An attempt: one trace request through its children, and what came of it.

Each device has a trace of its own, one after the other, and all of them must succeed. In mode eager nothing is traced.
"""

from contextlib import ExitStack
from functools import partial

from pydantic import JsonValue

from service.domain.outcome import Outcome, RanEagerly, Succeeded
from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.channel import MalformedFrame
from service.sandbox.child import Exit
from service.sandbox.zygote import Zygote
from service.storage.blobs import Staged
from service.storage.database import Store
from tracehouse.errors import TraceError
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import DeviceName
from workers import auto_mode, buckets, eager_run
from workers.device_trace import DeviceTrace
from workers.limits import TraceLimits
from workers.printed_log import PrintedLog
from workers.processes.children import Children
from workers.processes.exits import not_traced


class Attempt:
    """What came of it is an Outcome; a fault of the service's own is raised, and Stopped."""

    def __init__(
        self, request: TraceRequest, store: Store, zygote: Zygote, limits: TraceLimits, cancellation: Cancellation
    ) -> None:
        self._request = request
        self._store = store
        self._log = PrintedLog(self._append_log, limits.log_max_bytes)
        self._children = Children(request, store.blobs, zygote, limits, cancellation, self._log)
        self._stage_reached = Stage.QUEUED
        self._place = 0  # of the device in the request
        self._progress = 0.0
        self._held = ExitStack()  # what is staged, until `run` ends

    @property
    def exits(self) -> list[Exit]:
        """How those children ended that ran the submitted code as the request asks."""
        return self._children.exits

    def run(self) -> Outcome:
        try:
            with self._held:
                return self._ran() if self._request.spec.mode == "eager" else self._traced()
        except TraceError as error:
            return not_traced(error)
        finally:
            self._log.flush()

    def _traced(self) -> Succeeded:
        spec = self._request.spec
        traces = [one for place, device in enumerate(spec.devices) for one in self._traced_on(device, place)]
        self._report(Stage.STORING, 0.95)
        return Succeeded.of(spec, [trace.stored() for trace in traces])

    def _traced_on(self, device: DeviceName, place: int) -> list[DeviceTrace]:
        """One, or one for each of its buckets."""
        spec = self._request.spec
        self._place = place
        make = partial(self._made, device)
        try:
            kept = auto_mode.made(make) if spec.mode == "auto" else make(spec.way)
            return buckets.made(kept, spec, make, self._children.until)
        except TraceError as error:
            if len(spec.devices) > 1:
                error.facts = {**error.facts, "device": device}
            raise

    def _made(self, device: DeviceName, way: Conversion) -> DeviceTrace:
        self._stage_reached = Stage.QUEUED
        told = self._report, self._report_layer
        trace = DeviceTrace(self._request, device, way, self._children, *told, self._staged)
        trace.run()
        return trace

    def _ran(self) -> RanEagerly:
        returned = eager_run.run(self._request.spec, self._children)
        self._report(Stage.STORING, 0.95)
        outputs = self._staged()
        eager_run.write(returned, outputs)
        return RanEagerly(outputs=outputs.commit())

    def _report(self, stage: Stage, progress: float) -> None:
        """Forwards alone, or a child could fill the table of events; each device, and each way that mode auto tries,
        goes through the stages anew."""
        if not stage.is_after(self._stage_reached):
            raise MalformedFrame(f"{stage.value} came after {self._stage_reached.value}")
        self._stage_reached = stage
        self._log.flush()
        self._progress = max(self._progress, (self._place + progress) / len(self._request.spec.devices))
        self._store.trace_requests.report(self._request.id, self._request.attempt, stage, self._progress)

    def _report_layer(self, device: DeviceName, layer: Layer) -> None:
        self._log.flush()
        told = layer.model_dump(mode="json", exclude={"left_out"})
        left_out: dict[str, JsonValue] = {"left_out": len(layer.left_out), "device": device}
        self._store.events.append(self._request.id, "layer", told | left_out)

    def _staged(self) -> Staged:
        return self._held.enter_context(self._store.blobs.stage())

    def _append_log(self, text: str) -> None:
        self._store.events.append(self._request.id, "log", {"text": text})
