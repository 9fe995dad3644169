"""Events: what happens to a trace request, told while it happens, as server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, Caller, MayRead
from service.api.problems import StreamQuotaExceeded, TooManyStreams, problem_responses
from service.api.trace_requests import RequestId
from service.api.waiting import heard, listening
from service.domain.errors import MalformedHeader, TraceRequestNotFound
from service.domain.event import Event
from tracehouse.errors import InvalidRequest

_BATCH = 100

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES)


@router.get(
    "/trace/{id}/events",
    response_class=StreamingResponse,
    summary="Watch a trace request",
    responses={
        200: {
            "description": "Events until the end: each with its `seq` as id, its kind as event and JSON as data.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        204: {"description": "It has ended, and everything was told: a browser stops asking again."},
        **problem_responses(
            *ACCESS_ERRORS, StreamQuotaExceeded, MalformedHeader, InvalidRequest, TraceRequestNotFound, TooManyStreams
        ),
    },
)
async def watch(
    context: ContextDep,
    caller: MayRead,
    request_id: RequestId,
    after: Annotated[int, Query(ge=0, lt=2**31, description="Only what came after this `seq`.")] = 0,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The same, as a browser sends it that was cut off.")
    ] = None,
) -> Response:
    """Kinds: `stage` ({stage, progress, state}), `layer` ({name, method, device, seconds, summary, left_out}: a layer
    of the check that is done, and how many steps of it the budget cut), `log` ({text}), and at last `end`
    ({state, verdict}).

    Everything is told from the beginning, or after a given event, so that no watcher misses any.
    """
    seq = after if last_event_id is None else _seq(last_event_id)
    request = await run_in_threadpool(context.store.trace_requests.status, caller.tenant, request_id)
    if request.state.ended and not await run_in_threadpool(
        context.store.events.after, caller.tenant, request_id, seq, 1
    ):
        return Response(status_code=204)
    _refuse_beyond(context, caller)
    # Proxies that collect replies before passing them on would hold back what is meant for now.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventSourceResponse(_told(context, caller.tenant, request_id, seq), headers=headers)


def _refuse_beyond(context: AppContext, caller: Caller) -> None:
    """Where there are keys, no tenant takes up all streams alone."""
    if len(context.streams) >= context.limits.streams_max:
        raise TooManyStreams("too many event streams are open", limit=context.limits.streams_max)
    if caller.key and [*context.streams.values()].count(caller.tenant) >= context.limits.tenant_streams_max:
        raise StreamQuotaExceeded("the tenant has too many event streams open", limit=context.limits.tenant_streams_max)


def _seq(last_event_id: str) -> int:
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 10):
        raise MalformedHeader("Last-Event-ID is the id of an event of this stream", header="Last-Event-ID")
    return int(last_event_id)


async def _told(context: AppContext, tenant: str, request_id: str, seq: int) -> AsyncIterator[bytes]:
    context.streams[stream := object()] = tenant
    try:
        with listening(context.store.changes, request_id) as changed:
            while not context.stopping.is_set():
                changed.clear()
                events = await run_in_threadpool(context.store.events.after, tenant, request_id, seq, _BATCH)
                for event in events:
                    yield _written(event)
                    seq = event.seq
                    if event.kind == "end":
                        return
                if len(events) < _BATCH and not await heard(changed, context.limits.heartbeat_s, context.stopping):
                    yield KEEPALIVE_COMMENT
    finally:
        del context.streams[stream]


def _written(event: Event) -> bytes:
    return format_sse_event(id=str(event.seq), event=event.kind, data_str=orjson.dumps(event.data).decode())
