"""`Prefer: wait=N` (RFC 7240): answer with the end of a trace request if it comes within N seconds."""

import re
from collections.abc import Sequence
from threading import Event
from time import monotonic

import anyio
from fastapi.concurrency import run_in_threadpool

from service.domain.trace_request import TraceStatus
from service.storage.trace_requests import TraceRequests

WAIT_MAX_S = 60

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_WAIT = re.compile(r"\s*wait\s*=\s*([0-9]{1,9})\s*(?:;.*)?", re.ASCII | re.IGNORECASE)


def preferred_wait_s(headers: Sequence[str]) -> int | None:
    """The first `wait`, at most WAIT_MAX_S. What cannot be read is as if it were not there, as the RFC has it."""
    preferences = _QUOTED.sub('""', ",".join(headers)).split(",")
    waits = [found for preference in preferences if (found := _WAIT.fullmatch(preference))]
    return min(int(waits[0][1]), WAIT_MAX_S) if waits else None


async def wait_for_end(
    trace_requests: TraceRequests, request: TraceStatus, wait_s: float, stopping: Event
) -> TraceStatus:
    """The request as it stands when it has ended or the time is over. No thread is held meanwhile."""
    begun = monotonic()
    while not request.state.ended and not stopping.is_set() and (waited := monotonic() - begun) < wait_s:
        await anyio.sleep(min(pause_s(waited), wait_s - waited))
        request = await run_in_threadpool(trace_requests.status, request.id)
    return request


def pause_s(waited: float) -> float:
    """How long to sleep before asking again: what is asked for comes at most a tenth later than it could."""
    return min(max(waited / 10, 0.005), 0.2)
