"""Progress: how far an attempt has come, on its way to its record."""

from typing import get_args

from pydantic import JsonValue

from service.domain.trace_request import Stage, TraceRequest
from service.sandbox.channel import MalformedFrame
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.trace_spec import DeviceName
from workers.attempt_record import AttemptRecord
from workers.printed_log import PrintedLog

# How far the check begins and ends, as the tracer's stages say it; its layers are as far from one another. A choice.
_CHECK_BEGINS, _CHECK_ENDS = 0.5, 0.8
_LAYERS = len(get_args(Layer.model_fields["name"].annotation))


class TraceProgress:
    """The stages and layers of one attempt. Each device, and each conversion that is tried, has all stages anew."""

    def __init__(self, request: TraceRequest, record: AttemptRecord, printed_log: PrintedLog) -> None:
        self._request = request
        self._record = record
        self._printed_log = printed_log
        self._stage_reached = Stage.QUEUED
        self._device_index = 0  # in the request
        self._layers_done: set[tuple[str, str]] = set()  # of this device and conversion, by methods
        self._progress = 0.0

    def begin_device(self, index: int) -> None:
        self._device_index = index

    def begin_conversion(self) -> None:
        self._stage_reached = Stage.QUEUED
        self._layers_done.clear()

    def report_stage(self, stage: Stage, progress: float) -> None:
        """Raises MalformedFrame unless the stage is a later one: a child could fill the table of events."""
        if not stage.is_after(self._stage_reached):
            raise MalformedFrame(f"{stage.value} came after {self._stage_reached.value}")
        self._stage_reached = stage
        self._printed_log.flush()
        self._record.report_stage(stage, self._advance(progress))

    def report_layer(self, device: DeviceName, layer: Layer) -> None:
        self._printed_log.flush()
        self._layers_done.add((layer.method, layer.name))
        done = min(1.0, len(self._layers_done) / (_LAYERS * len(self._request.spec.calls)))
        event = layer.model_dump(mode="json", exclude={"left_out"})
        more: dict[str, JsonValue] = {
            "left_out": len(layer.left_out),
            "device": device,
            "progress": self._advance(_CHECK_BEGINS + done * (_CHECK_ENDS - _CHECK_BEGINS)),
        }
        self._record.report_layer(event | more)

    def _advance(self, progress: float) -> float:
        """Return how far the request is, if this device is so far. It never goes back, as it may with a conversion."""
        done = (self._device_index + progress) / len(self._request.spec.devices)
        self._progress = max(self._progress, done)
        return self._progress
