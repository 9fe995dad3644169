"""An attempt's record: where an attempt keeps its files, and what it tells while it runs."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from pydantic import JsonValue

from service import telemetry
from service.domain.errors import StorageQuotaExceeded
from service.domain.trace_request import Stage, TraceRequest
from service.storage.allowances import Allowance
from service.storage.blobs import Blobs, StagedBlob
from service.storage.database import Store
from service.storage.events import event_bytes

# In one event. A reader holds `_LOG_PAGE` (service/storage/events.py) or `_BATCH` (service/api/events.py) of them.
_EVENT_CHARACTERS = 16 * 1024
_LOG_CUT = "\n[the log is cut: the storage quota has no room for more]\n"


class AttemptRecord(Protocol):
    """What an attempt writes to. `blobs` has the request's files."""

    @property
    def blobs(self) -> Blobs: ...

    def stage_file(self) -> StagedBlob:
        """Return a new file among the blobs."""
        ...

    def report_stage(self, stage: Stage, progress: float) -> None: ...

    def report_layer(self, layer: dict[str, JsonValue]) -> None: ...

    def append_log(self, text: str) -> None:
        """Append to what the model code has printed."""
        ...


class StoredRecord:
    """The record of an attempt at a stored request: its row, its events and, within the allowance, its files."""

    def __init__(self, request: TraceRequest, store: Store, allowance: Allowance, steps: telemetry.Steps) -> None:
        """The stages and layers become `steps` of a trace of OpenTelemetry."""
        self._request = request
        self._steps = steps
        self._store = store
        self._allowance = allowance
        self._is_log_cut = False

    @property
    def blobs(self) -> Blobs:
        return self._store.blobs

    def stage_file(self) -> StagedBlob:
        return self._store.blobs.stage(self._allowance)

    def report_stage(self, stage: Stage, progress: float) -> None:
        self._steps.begin(stage.value)
        self._store.trace_requests.report(self._request.id, self._request.attempt, stage, progress)

    def report_layer(self, layer: dict[str, JsonValue]) -> None:
        name, seconds, device = layer.get("name"), layer.get("seconds"), layer.get("device")
        if isinstance(seconds, int | float):
            self._steps.add(f"check {name}", seconds, {"tracehouse.device": str(device)})
        self._store.events.append(self._request.id, "layer", layer, attempt=self._request.attempt)

    def append_log(self, text: str) -> None:
        """Append to the request's log. Where the tenant has no room for that, the log ends with a line that says so."""
        if self._is_log_cut:
            return
        events = _log_events(text)
        sizes = [*map(event_bytes, events)]
        fitting = self._take_room(sizes)
        if fitting < len(events):
            self._is_log_cut = True
            events = [*events[:fitting], *_log_events(_LOG_CUT)]
        self._store.events.append(self._request.id, "log", *events, attempt=self._request.attempt)
        self._allowance.give_back(sum(sizes[:fitting]))  # the events count now

    def _take_room(self, sizes: Sequence[int]) -> int:
        """Take room for so many bytes each, or for as many of the first as there is room for; return for how many."""
        with suppress(StorageQuotaExceeded):
            self._allowance.take(sum(sizes))
            return len(sizes)
        taken = 0
        with suppress(StorageQuotaExceeded):
            for size in sizes:
                self._allowance.take(size)
                taken += 1
        return taken


def _log_events(text: str) -> list[dict[str, JsonValue]]:
    """Return the data of the events that carry the text."""
    return [{"text": text[start : start + _EVENT_CHARACTERS]} for start in range(0, len(text), _EVENT_CHARACTERS)]
