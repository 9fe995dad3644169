"""Progress: how far an attempt has come, on its way to its record."""

from pydantic import JsonValue

from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.channel import MalformedFrame
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.trace_spec import DeviceName
from workers.attempt_record import AttemptRecord
from workers.printed_log import PrintedLog


class TraceProgress:
    """The stages and layers of one attempt. Each device, and each conversion that is tried, has all stages anew."""

    def __init__(self, request: TraceRequest, record: AttemptRecord, printed_log: PrintedLog) -> None:
        self._request = request
        self._record = record
        self._printed_log = printed_log
        self._stage_reached = Stage.QUEUED
        self._device_index = 0  # in the request
        self._progress = 0.0

    def begin_device(self, index: int) -> None:
        self._device_index = index

    def begin_conversion(self) -> None:
        self._stage_reached = Stage.QUEUED

    def report_stage(self, stage: Stage, progress: float) -> None:
        """Raises MalformedFrame unless the stage is a later one: a child could fill the table of events."""
        if not stage.is_after(self._stage_reached):
            raise MalformedFrame(f"{stage.value} came after {self._stage_reached.value}")
        self._stage_reached = stage
        self._printed_log.flush()
        done = (self._device_index + progress) / len(self._request.spec.devices)
        self._progress = max(self._progress, done)
        self._record.report_stage(stage, self._progress)

    def report_layer(self, device: DeviceName, layer: Layer) -> None:
        self._printed_log.flush()
        event = layer.model_dump(mode="json", exclude={"left_out"})
        left_out: dict[str, JsonValue] = {"left_out": len(layer.left_out), "device": device}
        self._record.report_layer(event | left_out)
