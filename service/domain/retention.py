"""Retention: what a service keeps for how long, and what a sweep removes."""

from typing import Literal

from pydantic import Field

from tracehouse.frozen import Frozen

Reason = Literal["age", "quota"]


class RetentionRules(Frozen):
    """How long things are kept; None is for ever. What a model version names is kept whatever the rules say.

    `requests_s` and `events_s` count from the end of a trace request, `files_s` from the last time that a file was
    written; they are for files that nothing names, and those of the last minutes stay whatever it is.
    """

    requests_s: float | None = None
    tenant_max_bytes: int | None = None
    events_s: float | None = None
    files_s: float = Field(86400.0, ge=0)


class DueRequest(Frozen):
    """A trace request that is removed, why, and what it counts against its tenant's quota."""

    id: str
    tenant: str
    reason: Reason
    stored_bytes: int


class Sweep(Frozen):
    """What a sweep removed, or would remove. `stored_bytes` are those that no tenant's quota counts any more.

    `are_files_in_use`: others stored files all the time, so that some or all of the files wait for the next sweep.
    """

    requests: list[DueRequest] = []
    artifacts: int = 0
    artifact_bytes: int = 0
    events: int = 0
    event_bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    are_files_in_use: bool = False

    @property
    def stored_bytes(self) -> int:
        return sum(one.stored_bytes for one in self.requests) + self.artifact_bytes + self.event_bytes
