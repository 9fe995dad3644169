"""An event: what the watchers of a trace request are told, in order."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from tracehouse.frozen import Frozen

EventKind = Literal["stage", "layer", "log", "end"]


class Event(Frozen):
    """`seq` counts from 1 and has no gaps; an `end` is the last one.

    `data` is {stage, progress, state} of a stage, {name, method, device, seconds, did, left_out} of a layer of the
    check that is done, where `left_out` counts what the budget cut, {text} of a log, {state, verdict} of an end.
    """

    request_id: str
    seq: int
    kind: EventKind
    data: dict[str, JsonValue]
    created_at: datetime
