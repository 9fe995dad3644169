"""An event: a change of a trace request, for those who watch it."""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from tracehouse.frozen import Frozen

EventKind = Literal["stage", "layer", "log", "end"]


class Event(Frozen):
    """`seq` counts from 1 without gaps; the last event is an `end`, which retention may leave alone.

    `data` of a `stage` is {stage, progress, state}; of a `layer`, which is a finished layer of the check,
    {name, method, device, seconds, summary, left_out, is_cut, budget_s, budget_left_s, progress}, where `left_out`
    counts the steps that it left out; of a `log` {text}; of an `end` {state, verdict}.
    """

    request_id: str
    seq: int
    kind: EventKind
    data: dict[str, JsonValue]
    created_at: datetime
