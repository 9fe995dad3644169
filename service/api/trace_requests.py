"""Trace requests: submit, list, read and cancel them."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import Field

from service import telemetry
from service.api.context import AppContext, ContextDep, EngineDep, StoreDep
from service.api.downloads import BLOB_ERRORS, attachment, partial_responses
from service.api.environments import requested_environment
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, Caller, MayRead, MayTrace
from service.api.http.in_turn import InTurn, Stream, go_on, transfers_files
from service.api.pagination import Cursor, Limit, link_next
from service.api.prefer import WAIT_MAX_S, preferred_wait_s
from service.api.problems import RangeNotSatisfiable, RequestTimeout, problem_responses
from service.api.submission import REQUEST_BODY, Submission, receive_submission
from service.api.trace_request_reply import TraceRequestReply, TraceRequestSummary
from service.api.waiting import wait_for_end
from service.domain.api_key import Scope
from service.domain.errors import (
    EnvironmentUnusable,
    FileNotUploaded,
    FileNotUsed,
    FilesUnavailable,
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
    TooMuchWorkWaits,
    TraceRequestContinued,
    TraceRequestEnded,
    TraceRequestHasVersion,
    TraceRequestNotEnded,
    TraceRequestNotFound,
    UnknownEnvironment,
    UnsupportedMediaType,
    UploadTruncated,
)
from service.domain.idempotency import Idempotency
from service.domain.trace_request import State, TraceRequest, TraceStatus
from service.storage.allowances import Allowance
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import InvalidRequest
from tracehouse.frozen import Frozen
from tracehouse.spec.model_name import ModelName

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES, route_class=InTurn)

# Printable ASCII: no client or proxy encodes these in another way.
_IDEMPOTENCY_KEY = re.compile(r"[ -~]{1,255}")

RequestId = Annotated[
    str,
    Path(
        alias="id",
        pattern="^[0-9a-f]{32}$",
        description="The `id` in the reply to `POST /trace`. Send that first, then copy it here.",
    ),
]


PreferHeader = Annotated[
    str | None,
    Header(
        alias="Prefer",
        description=f"`wait=N` waits for the end for up to N seconds, at most {WAIT_MAX_S}. If no worker can take "
        "the request, the reply comes at once.",
    ),
]

IdempotencyKeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same content gives the same trace request, however often it is sent.",
    ),
]


FilesOf = Annotated[
    str | None,
    Query(
        pattern="^[0-9a-f]{32}$",
        description="The `id` of an earlier trace request. What was uploaded with it, such as its weights, this one "
        "may name without uploading it again. Needs the scope `read` too.",
    ),
]


class TraceRequestList(Frozen):
    """Trace requests, newest first."""

    trace_requests: list[TraceRequestSummary]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")


class InlineSource(Frozen):
    """A source whose texts were submitted in the request itself."""

    entrypoint: str
    files: dict[str, str]
    file: str | None = Field(
        None, description="The `.zip` that was uploaded beside these texts, if one was: `packed` gets it."
    )


FOLLOW_UPS: dict[str, Any] = {
    operation: {"operationId": operation, "parameters": {"id": "$response.body#/id"}}
    for operation in ("get_trace_request", "get_log", "get_source", "cancel")
}

ACCEPTED_HEADERS: dict[str, Any] = {
    "Location": {"description": "The path of the trace request.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait before the next look at it.", "schema": {"type": "integer"}},
}


@router.post(
    "/trace",
    status_code=202,
    summary="Submit a model to be traced",
    response_description="The request is queued, or the same content is queued or running already.",
    responses={
        200: {
            "model": TraceRequestReply,
            "description": "The same content was traced before, or the request ended while `Prefer: wait` waited.",
            "links": FOLLOW_UPS,
        },
        202: {"headers": ACCEPTED_HEADERS, "links": FOLLOW_UPS},
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
            UnknownEnvironment,
            EnvironmentUnusable,
            IdempotencyKeyReused,
            QueueFull,
            FilesUnavailable,
            ShuttingDown,
            TooMuchWorkWaits,
            TraceRequestNotFound,
        ),
    },
    openapi_extra=REQUEST_BODY,
)
async def submit(
    request: Request,
    response: Response,
    context: ContextDep,
    caller: MayTrace,
    prefer: PreferHeader = None,  # noqa: ARG001 - only documented here: it may come several times, and all are read
    idempotency_key: IdempotencyKeyHeader = None,
    files_of: FilesOf = None,
) -> TraceRequestReply:
    """Takes source, weights and example inputs, and replies at once with a trace request that a worker then runs.

    The example traces a small model under the name `linear`, which the other examples on this page use.
    """
    key = check_idempotency_key(idempotency_key)
    earlier = {} if files_of is None else await _find_files(request, context, caller, files_of)
    with context.store.allowances.open(caller.tenant, context.quotas) as allowance:
        async with receive_submission(
            request,
            context.store.blobs,
            allowance,
            request_max_bytes=caller.upload_max_bytes(context.limits.request_max_bytes),
            upload_max_bytes=caller.upload_max_bytes(context.limits.upload_max_bytes),
            earlier=earlier,
        ) as submission:
            turns = context.transfers if submission.files else context.turns
            status: TraceStatus = await turns.go_on(
                caller.tenant,
                _submit,
                context,
                caller,
                submission,
                allowance,
                key,
                files_of,
                telemetry.carry(request.headers),
            )
    return await reply_to_submission(request, response, context, status)


async def _find_files(request: Request, context: AppContext, caller: Caller, files_of: str) -> dict[str, BlobRef]:
    """Return what was uploaded with an earlier trace request. Raises ScopeMissing and TraceRequestNotFound."""
    caller.require(Scope.READ)
    _, files = await go_on(request, context.store.trace_requests.source, caller.tenant, files_of)
    return files


async def reply_to_submission(
    request: Request, response: Response, context: AppContext, status: TraceStatus
) -> TraceRequestReply:
    """Return the reply to what was just submitted: once it has ended, if `Prefer` waits so long, or else at once."""
    wait_s = preferred_wait_s(request.headers.getlist("prefer"))
    if wait_s is not None and context.engine.waiting(status) is None:
        status = await wait_for_end(context, request, status, wait_s)
    if status.state is State.SUCCEEDED or (status.state.is_final and wait_s is not None):
        response.status_code = 200
        if wait_s is not None:
            response.headers["Preference-Applied"] = f"wait={wait_s}"
    else:
        response.headers["Retry-After"] = "1"
    response.headers["Location"] = f"/trace/{status.id}"
    return TraceRequestReply.of(status, context.engine)


def check_idempotency_key(value: str | None) -> str | None:
    if value is not None and not _IDEMPOTENCY_KEY.fullmatch(value):
        raise MalformedHeader("an Idempotency-Key has 1 to 255 printable ASCII characters", header="Idempotency-Key")
    return value


def _submit(
    context: AppContext,
    caller: Caller,
    submission: Submission,
    allowance: Allowance,
    key: str | None,
    files_of: str | None,
    trace_context: dict[str, str] | None,
) -> TraceStatus:
    submitted = TraceRequest.new(
        submission.spec,
        submission.files,
        torch_version=context.torch_version,
        tenant=caller.tenant,
        environment=requested_environment(context.environments, context.tier, submission.spec.environment),
        trace_context=trace_context,
    )
    idempotency = None if key is None else Idempotency.of(key, submitted)
    context.engine.refuse(submitted, idempotency, allowance=allowance)
    if files_of is not None:  # from here on its files stay, if it is still there
        allowance.hold_files()
        context.store.trace_requests.source(caller.tenant, files_of)
    submission.sync()
    keep = submission.keep if submission.files else None
    return context.engine.submit(submitted, idempotency, keep=keep, allowance=allowance, by=caller.actor)


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
    state: Annotated[State | None, Query(description="Only trace requests in this state.")] = None,
    model: Annotated[ModelName | None, Query(description="Only trace requests for the model of this name.")] = None,
) -> TraceRequestList:
    """Lists trace requests, newest first, a page at a time."""
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
    summary="Read a trace request",
    responses={200: {"links": _ARTIFACTS}, **problem_responses(InvalidRequest, TraceRequestNotFound)},
)
def get_trace_request(store: StoreDep, engine: EngineDep, caller: MayRead, request_id: RequestId) -> TraceRequestReply:
    """Returns state, stage and progress; at the end the verdict, the findings and the artifacts, or the problem."""
    return TraceRequestReply.of(store.trace_requests.status(caller.tenant, request_id), engine)


@router.get(
    "/trace/{id}/log",
    response_class=PlainTextResponse,
    summary="Read what the model's code printed",
    responses=problem_responses(InvalidRequest, TraceRequestNotFound),
)
def get_log(request: Request, store: StoreDep, caller: MayRead, request_id: RequestId) -> Response:
    """Returns standard output and standard error of the newest attempt, unchanged; cut if there was too much."""
    store.trace_requests.status(caller.tenant, request_id)
    # The model's code wrote the text: `nosniff` keeps a browser from taking it for a page.
    printed = store.events.log(caller.tenant, request_id)
    return Stream(request, printed, media_type="text/plain; charset=utf-8")


@router.get(
    "/trace/{id}/source",
    response_model=InlineSource,
    summary="Read the source that was submitted",
    responses={
        200: {
            "description": "JSON for inline source, also beside a `.zip`; otherwise the uploaded file.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **partial_responses(),
        **problem_responses(InvalidRequest, TraceRequestNotFound, RangeNotSatisfiable, *BLOB_ERRORS),
    },
)
@transfers_files
def get_source(
    request: Request,
    store: StoreDep,
    caller: MayRead,
    request_id: RequestId,
    packed: Annotated[bool, Query(description="Of texts beside a `.zip`: return that.")] = False,
) -> Response:
    """Returns the source byte for byte."""
    source, files = store.trace_requests.source(caller.tenant, request_id)
    uploaded = source.file or source.archive
    if uploaded is not None and (packed or source.files is None):
        return attachment(request, store.blobs, files[uploaded], filename=uploaded)
    assert source.entrypoint is not None  # TraceSpec checks that
    inline = InlineSource(entrypoint=source.entrypoint, files=source.files or {}, file=source.file)
    return JSONResponse(inline.model_dump(exclude_none=True))


@router.post(
    "/trace/{id}/cancel",
    summary="Cancel a trace request",
    responses=problem_responses(InvalidRequest, TraceRequestNotFound, TraceRequestEnded),
)
def cancel(engine: EngineDep, caller: MayTrace, request_id: RequestId) -> TraceRequestReply:
    """Cancels a queued or running request: its processes are stopped, and it ends as `cancelled`."""
    return TraceRequestReply.of(engine.cancel(caller.tenant, request_id, by=caller.actor), engine)


@router.delete(
    "/trace/{id}",
    status_code=204,
    summary="Delete a trace request",
    responses=problem_responses(
        InvalidRequest, TraceRequestNotFound, TraceRequestNotEnded, TraceRequestHasVersion, TraceRequestContinued
    ),
)
def delete_trace_request(store: StoreDep, caller: MayTrace, request_id: RequestId) -> None:
    """Deletes what was submitted, the events, the log, and the artifacts that no other trace request and no model
    version has. From then on, none of that counts against the quota.

    Refused while it waits or runs: cancel it first. Refused while a model has a version that came from it.
    """
    store.trace_requests.delete(caller.tenant, request_id, by=caller.actor)
