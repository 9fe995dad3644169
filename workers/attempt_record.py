"""An attempt's record: where an attempt keeps its files, and what it tells while it runs."""

from collections.abc import Iterable, Sequence
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

EventData = dict[str, JsonValue]
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
        taken = self._take_room(events)
        if len(taken) < len(events):
            self._is_log_cut = True
            events = [*taken, *_log_events(_LOG_CUT)]
        self._store.events.append(self._request.id, "log", *events, attempt=self._request.attempt)
        self._allowance.give_back(_count_bytes(taken))  # the events count now

    def _take_room(self, events: Sequence[EventData]) -> Sequence[EventData]:
        """Take room for the events, or for as many of the first ones as there is room for, and return those."""
        try:
            self._allowance.take(_count_bytes(events))
        except StorageQuotaExceeded:
            taken: list[EventData] = []
            with suppress(StorageQuotaExceeded):
                for event in events:
                    self._allowance.take(event_bytes(event))
                    taken.append(event)
            return taken
        return events


def _count_bytes(events: Iterable[EventData]) -> int:
    return sum(map(event_bytes, events))


def _log_events(text: str) -> list[EventData]:
    """Return the data of the events that carry the text."""
    return [{"text": text[start : start + _EVENT_CHARACTERS]} for start in range(0, len(text), _EVENT_CHARACTERS)]
