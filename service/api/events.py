"""Events: what happens to a trace request, sent while it happens as server-sent events."""

from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial
from typing import Annotated, NamedTuple

import orjson
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from service.api.context import AppContext, ContextDep
from service.api.http import in_turn
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, MayRead
from service.api.problems import StreamQuotaExceeded, TooManyStreams, problem_responses
from service.api.streams import CountedStream
from service.api.trace_requests import RequestId
from service.api.waiting import listen_for_changes, wait_for_change
from service.domain.errors import MalformedHeader, TooMuchWorkWaits, TraceRequestNotFound
from service.domain.event import Event
from service.domain.trace_request import TraceStatus
from service.storage.events import PAGE_BYTES
from tracehouse.errors import InvalidRequest

# So many at most are read at a time, and no more than PAGE_BYTES beside the last.
_BATCH = 16

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES)


@router.get(
    "/trace/{id}/events",
    response_class=StreamingResponse,
    summary="Watch a trace request",
    responses={
        200: {
            "description": "Events until the request ends. `id` is an event's `seq`, `event` its kind, `data` JSON.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        204: {"description": "The request has ended and no event is left: a browser stops reconnecting."},
        **problem_responses(
            *ACCESS_ERRORS,
            StreamQuotaExceeded,
            MalformedHeader,
            InvalidRequest,
            TraceRequestNotFound,
            TooManyStreams,
            TooMuchWorkWaits,
        ),
    },
)
async def watch(
    request: Request,
    context: ContextDep,
    caller: MayRead,
    request_id: RequestId,
    after: Annotated[int, Query(ge=0, lt=2**31, description="Send only the events after this `seq`.")] = 0,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="Works as `after`; a browser sends it when it reconnects."),
    ] = None,
) -> Response:
    """The kinds are `stage` ({stage, progress, state}), `layer` ({name, method, device, seconds, summary, left_out,
    is_cut, budget_s, budget_left_s, progress}: a layer of the check that is done, how many of its steps it left out,
    whether a limit cut it, how many seconds it took of the check's budget, and how many are left), `log` ({text}), and
    last `end` ({state, verdict}).

    While the request waits for its turn, `position` ({position, expected_start}) tells its place, whenever that has
    changed, and when it is expected to begin, as `GET /trace/{id}` does. It has no `id`: it is not stored, and not sent
    again.

    The stream begins with the first event, or after the given one, so that no watcher misses any.
    """
    seq = after if last_event_id is None else _seq(last_event_id)
    watched = await in_turn.run(request, context.store.trace_requests.status, caller.tenant, request_id)
    if watched.state.is_final and not await context.turns.go_on(
        caller.tenant, context.store.events.after, caller.tenant, request_id, seq, 1
    ):
        return Response(status_code=204)
    limits = context.limits
    return CountedStream(
        _stream(context, watched, seq),
        partial(
            context.streams.counted,
            caller.tenant,
            limits.streams_max,
            limits.tenant_streams_max if caller.key else None,
        ),
        # A proxy that buffers replies would hold back events.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _seq(last_event_id: str) -> int:
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 10):
        raise MalformedHeader("Last-Event-ID is the id of an event of this stream", header="Last-Event-ID")
    return int(last_event_id)


class _Frame(NamedTuple):
    """An event as it is sent."""

    seq: int
    is_end: bool
    data: bytes


def _frames(context: AppContext, request: TraceStatus, seq: int) -> list[_Frame]:
    """Return the next events as they are sent, which is all that a stream keeps while its client does not read."""
    events = context.store.events.after(request.tenant, request.id, seq, _BATCH)
    return [_Frame(event.seq, event.kind == "end", _encode(event)) for event in events]


async def _stream(context: AppContext, request: TraceStatus, seq: int) -> AsyncGenerator[bytes]:
    told: int | None = None

    def has_moved() -> bool:
        return context.engine.position(request) != told

    with listen_for_changes(context.store.changes, request.id) as changed:
        while not context.stopping.is_set():
            changed.clear()
            frames = await context.turns.go_on(request.tenant, _frames, context, request, seq)
            for frame in frames:
                yield frame.data
                seq = frame.seq
                if frame.is_end:
                    return
            if len(frames) == _BATCH or sum(len(frame.data) for frame in frames) >= PAGE_BYTES:
                continue
            if not frames and await _is_deleted(context, request):
                return
            if (position := context.engine.position(request)) != told:
                told = position
                if position is not None:
                    yield _encode_position(position, context.engine.expected_start(request))
            if not await wait_for_change(changed, context.limits.heartbeat_s, context.stopping, has_moved):
                yield KEEPALIVE_COMMENT


async def _is_deleted(context: AppContext, request: TraceStatus) -> bool:
    try:
        await context.turns.go_on(request.tenant, context.store.trace_requests.status, request.tenant, request.id)
    except TraceRequestNotFound:
        return True
    return False


def _encode_position(position: int, expected_start: datetime | None) -> bytes:
    told = {"position": position, "expected_start": expected_start}
    return format_sse_event(event="position", data_str=orjson.dumps(told, option=orjson.OPT_UTC_Z).decode())


def _encode(event: Event) -> bytes:
    return format_sse_event(id=str(event.seq), event=event.kind, data_str=orjson.dumps(event.data).decode())
