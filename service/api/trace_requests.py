"""Trace requests: submitted, listed, looked at, cancelled."""

import re
from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import Field

from service.api.context import AppContext, ContextDep, EngineDep, StoreDep
from service.api.downloads import attachment, partial_responses
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, Caller, MayRead, MayTrace
from service.api.pagination import Cursor, Limit, link_next
from service.api.prefer import WAIT_MAX_S, preferred_wait_s
from service.api.problems import Problem, RangeNotSatisfiable, RequestTimeout, problem_of, problem_responses
from service.api.submission import REQUEST_BODY, Submission, received
from service.api.waiting import wait_for_end
from service.domain.errors import (
    FileNotUploaded,
    FileNotUsed,
    IdempotencyKeyReused,
    InvalidCursor,
    InvalidFileName,
    MalformedHeader,
    MalformedJson,
    MalformedMultipart,
    PayloadTooLarge,
    QueueFull,
    QueueQuotaExceeded,
    ShuttingDown,
    StorageQuotaExceeded,
    TraceRequestEnded,
    TraceRequestNotFound,
    UnsupportedMediaType,
    UploadTruncated,
)
from service.domain.idempotency import Idempotency
from service.domain.trace_request import DeviceArtifact, ModelVersionRef, Stage, State, TraceRequest, TraceStatus
from service.engine.queue import Engine
from tracehouse.errors import InvalidRequest
from tracehouse.findings.trace_check import Finding, Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES)

# Printable ASCII: what a header can carry without anybody's encoding being in doubt.
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,255}")

RequestId = Annotated[
    str,
    Path(
        alias="id",
        pattern="^[0-9a-f]{32}$",
        description="The `id` in the reply to `POST /trace`. Send that first, then copy it here.",
    ),
]


class TraceRequestLinks(Frozen):
    """Paths. Null where there is nothing there, or not yet."""

    self: str
    events: str
    log: str
    source: str
    cancel: str | None
    artifact: str | None = Field(description="Of the first of its devices.")
    infer: str | None
    outputs: str | None = Field(description="What the model returned, in mode eager.")


class TraceRequestSummary(Frozen):
    """A trace request in a list: everything but what its check found."""

    id: str
    state: State = Field(description="`succeeded`: it was traced; the verdict says how well. Or it ran, in mode eager.")
    stage: Stage
    progress: float = Field(description="From 0 to 1.")
    pool: str = Field(description="The workers that take it.")
    waiting: str | None = Field(
        description="Why it will not begin as things are, such as `no worker in pool gpu`; null where nothing but its "
        "turn keeps it, and where it has begun."
    )
    attempt: int = Field(description="How often it was begun; 0 while it waits for the first time.")
    verdict: Verdict | None = Field(
        description="The worst of its devices'; null in mode eager, where nothing is traced."
    )
    model: ModelVersionRef | None = Field(description="Null where no version was registered.")
    artifacts: list[DeviceArtifact]
    problem: Problem | None = Field(description="Why it failed.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: TraceRequestLinks

    @classmethod
    def of(cls, request: TraceStatus, engine: Engine) -> Self:
        shown = {name: getattr(request, name) for name in cls.model_fields.keys() - {"problem", "links", "waiting"}}
        path = f"/trace/{request.id}"
        problem = problem_of(request.failure, instance=path) if request.failure else None
        return cls(**shown, waiting=engine.waiting(request), problem=problem, links=_links(request, path))


class TraceRequestReply(TraceRequestSummary):
    """A trace request as its submitter sees it."""

    findings: list[Finding]


class TraceRequestList(Frozen):
    """Newest first."""

    trace_requests: list[TraceRequestSummary]
    next_cursor: str | None = Field(description="Gives the next page; null on the last one.")


class InlineSource(Frozen):
    """Source that was submitted in the request itself."""

    entrypoint: str
    files: dict[str, str]


def _links(request: TraceStatus, path: str) -> TraceRequestLinks:
    artifact = f"/artifacts/{request.artifacts[0].digest}" if request.artifacts else None
    infer = f"/infer/{request.model.name}:{request.model.version}" if request.model else None
    return TraceRequestLinks(
        self=path,
        events=f"{path}/events",
        log=f"{path}/log",
        source=f"{path}/source",
        cancel=None if request.state.ended else f"{path}/cancel",
        artifact=artifact,
        infer=infer,
        outputs=f"{path}/outputs" if request.outputs else None,
    )


_FOLLOW_UPS: dict[str, Any] = {
    operation: {"operationId": operation, "parameters": {"id": "$response.body#/id"}}
    for operation in ("get_trace_request", "get_log", "get_source", "cancel")
}

_ACCEPTED_HEADERS: dict[str, Any] = {
    "Location": {"description": "Where to follow it.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds after which looking again makes sense.", "schema": {"type": "integer"}},
}


@router.post(
    "/trace",
    status_code=202,
    summary="Submit a model to be traced",
    response_description="It is queued, or the same content is already on its way.",
    responses={
        200: {
            "model": TraceRequestReply,
            "description": "The same content was traced before, or it ended while `Prefer: wait` waited.",
            "links": _FOLLOW_UPS,
        },
        202: {"headers": _ACCEPTED_HEADERS, "links": _FOLLOW_UPS},
        **problem_responses(
            *ACCESS_ERRORS,
            StorageQuotaExceeded,
            QueueQuotaExceeded,
            MalformedJson,
            MalformedMultipart,
            UploadTruncated,
            RequestTimeout,
            MalformedHeader,
            PayloadTooLarge,
            UnsupportedMediaType,
            InvalidRequest,
            InvalidFileName,
            FileNotUploaded,
            FileNotUsed,
            IdempotencyKeyReused,
            QueueFull,
            ShuttingDown,
        ),
    },
    openapi_extra=REQUEST_BODY,
)
async def submit(
    request: Request,
    response: Response,
    context: ContextDep,
    caller: MayTrace,
    prefer: Annotated[  # noqa: ARG001 - documented here; it may come several times, and is read from all of them
        str | None,
        Header(
            alias="Prefer",
            description=f"`wait=N` waits for the end, up to N seconds and at most {WAIT_MAX_S}. A request for which "
            "there is no worker is not waited for.",
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="Sent again with the same content, it gives the same trace request, however often.",
        ),
    ] = None,
) -> TraceRequestReply:
    """Source, weights and example inputs go in; a trace request comes back at once, and the work goes on behind it.

    The example traces a small model under the name `linear`. Everything else on this page then has something to show.
    """
    key = _idempotency_key(idempotency_key)
    async with received(
        request,
        context.store.blobs,
        request_max_bytes=caller.upload_max_bytes(context.limits.request_max_bytes),
        upload_max_bytes=caller.upload_max_bytes(context.limits.upload_max_bytes),
    ) as submission:
        status: TraceStatus = await run_in_threadpool(_submit, context, caller, submission, key)
    wait_s = preferred_wait_s(request.headers.getlist("prefer"))
    if wait_s is not None and context.engine.waiting(status) is None:
        status = await wait_for_end(context, request, status, wait_s)
    if status.state is State.SUCCEEDED or (status.state.ended and wait_s is not None):
        response.status_code = 200
        if wait_s is not None:
            response.headers["Preference-Applied"] = f"wait={wait_s}"
    else:
        response.headers["Retry-After"] = "1"
    response.headers["Location"] = f"/trace/{status.id}"
    return TraceRequestReply.of(status, context.engine)


def _idempotency_key(value: str | None) -> str | None:
    if value is not None and not _IDEMPOTENCY_KEY.fullmatch(value):
        raise MalformedHeader("an Idempotency-Key has 1 to 255 printable ASCII characters", header="Idempotency-Key")
    return value


def _submit(context: AppContext, caller: Caller, submission: Submission, key: str | None) -> TraceStatus:
    submitted = TraceRequest.submitted(
        submission.spec, submission.files, torch_version=context.torch_version, tenant=caller.tenant
    )
    idempotency = None if key is None else Idempotency.of(key, submitted)
    context.engine.refuse(submitted, idempotency)
    submission.keep()  # before there is a row that names them
    return context.engine.submit(submitted, idempotency)


@router.get(
    "/trace",
    summary="List trace requests",
    responses=problem_responses(InvalidRequest, InvalidCursor),
)
def list_trace_requests(
    request: Request,
    response: Response,
    store: StoreDep,
    engine: EngineDep,
    caller: MayRead,
    limit: Limit = 20,
    cursor: Cursor = None,
    state: Annotated[State | None, Query(description="Only those in this state.")] = None,
    model: Annotated[ModelName | None, Query(description="Only those submitted under this name.")] = None,
) -> TraceRequestList:
    """Newest first, a page at a time."""
    page = store.trace_requests.list(caller.tenant, limit, cursor, state=state, model=model)
    link_next(request, response, page.next_cursor)
    return TraceRequestList(
        trace_requests=[TraceRequestSummary.of(each, engine) for each in page.items], next_cursor=page.next_cursor
    )


_ARTIFACTS: dict[str, Any] = {
    operation: {"operationId": operation, "parameters": {"digest": "$response.body#/artifacts/0/digest"}}
    for operation in ("get_artifact", "get_archive", "list_printouts", "get_graph")
}


@router.get(
    "/trace/{id}",
    summary="Look at one trace request",
    responses={200: {"links": _ARTIFACTS}, **problem_responses(InvalidRequest, TraceRequestNotFound)},
)
def get_trace_request(store: StoreDep, engine: EngineDep, caller: MayRead, request_id: RequestId) -> TraceRequestReply:
    """State, stage and progress; at its end the verdict, the findings and the artifacts, or the problem."""
    return TraceRequestReply.of(store.trace_requests.status(caller.tenant, request_id), engine)


@router.get(
    "/trace/{id}/log",
    response_class=PlainTextResponse,
    summary="Read what the model's code printed",
    responses=problem_responses(InvalidRequest, TraceRequestNotFound),
)
def get_log(store: StoreDep, caller: MayRead, request_id: RequestId) -> StreamingResponse:
    """Standard output and standard error of the newest attempt, as it printed them; cut where there was too much."""
    store.trace_requests.status(caller.tenant, request_id)
    # The text is the model's: a browser must not take it for anything else, which `nosniff` sees to.
    return StreamingResponse(store.events.log(caller.tenant, request_id), media_type="text/plain; charset=utf-8")


@router.get(
    "/trace/{id}/source",
    response_model=InlineSource,
    summary="Get back the source that was submitted",
    responses={
        200: {
            "description": "Inline source as JSON; an uploaded file as it was uploaded.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **partial_responses(),
        **problem_responses(InvalidRequest, TraceRequestNotFound, RangeNotSatisfiable),
    },
)
def get_source(request: Request, store: StoreDep, caller: MayRead, request_id: RequestId) -> Response:
    """Byte for byte what was traced."""
    trace_request = store.trace_requests.get(caller.tenant, request_id)
    source = trace_request.spec.source
    if (uploaded := source.file or source.archive) is not None:
        return attachment(request, store.blobs, trace_request.files[uploaded], filename=uploaded)
    assert source.entrypoint is not None  # as it was parsed
    inline = InlineSource(entrypoint=source.entrypoint, files=source.files or {})
    return JSONResponse(inline.model_dump())


@router.post(
    "/trace/{id}/cancel",
    summary="Cancel a trace request",
    responses=problem_responses(InvalidRequest, TraceRequestNotFound, TraceRequestEnded),
)
def cancel(engine: EngineDep, caller: MayTrace, request_id: RequestId) -> TraceRequestReply:
    """Queued or running: it ends as `cancelled`, and what runs of it is stopped."""
    return TraceRequestReply.of(engine.cancel(caller.tenant, request_id), engine)
