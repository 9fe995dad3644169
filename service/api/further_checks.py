"""Further checks: going on with the check of an artifact, as a trace request of its own."""

from fastapi import APIRouter, Request, Response
from pydantic import Field

from service import telemetry
from service.api.artifacts import Digest
from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_ERRORS, ACCESS_RESPONSES, Caller, MayTrace
from service.api.http.body import BODY_ERRORS, describe_body, read_model
from service.api.http.in_turn import run
from service.api.problems import problem_responses
from service.api.trace_request_reply import TraceRequestReply
from service.api.trace_requests import (
    ACCEPTED_HEADERS,
    FOLLOW_UPS,
    IdempotencyKeyHeader,
    PreferHeader,
    check_idempotency_key,
    reply_to_submission,
)
from service.domain.errors import (
    ArchiveWithoutModel,
    ArtifactNotFound,
    ArtifactWithdrawn,
    ConversionUnknown,
    FilesUnavailable,
    IdempotencyKeyReused,
    MalformedHeader,
    QueueFull,
    QueueQuotaExceeded,
    ShuttingDown,
    StorageQuotaExceeded,
    SubmissionGone,
    TooMuchWorkWaits,
)
from service.domain.idempotency import Idempotency
from service.domain.trace_request import TraceStatus
from tracehouse.spec.trace_spec import BudgetName, CheckBudget


class FurtherBudget(CheckBudget):
    """How long the check may go on: a name, or seconds in its place."""

    budget: BudgetName | None = Field(
        "deep", description="As `check.budget` of a trace request. Null if `budget_s` is given."
    )


router = APIRouter(tags=["Artifacts"], responses=ACCESS_RESPONSES)


@router.post(
    "/artifacts/{digest}/check",
    status_code=202,
    summary="Go on with an artifact's check",
    response_description="The request is queued, or the same one is queued or running already.",
    responses={
        200: {
            "model": TraceRequestReply,
            "description": "This check went on before with that budget, or it ended while `Prefer: wait` waited.",
            "links": FOLLOW_UPS,
        },
        202: {"headers": ACCEPTED_HEADERS, "links": FOLLOW_UPS},
        **problem_responses(
            *BODY_ERRORS,
            *ACCESS_ERRORS,
            StorageQuotaExceeded,
            QueueQuotaExceeded,
            MalformedHeader,
            ArtifactNotFound,
            ArtifactWithdrawn,
            ArchiveWithoutModel,
            ConversionUnknown,
            SubmissionGone,
            IdempotencyKeyReused,
            QueueFull,
            FilesUnavailable,
            ShuttingDown,
            TooMuchWorkWaits,
        ),
    },
    openapi_extra=describe_body(FurtherBudget, example={"budget": "deep"}),
)
async def go_on(
    request: Request,
    response: Response,
    context: ContextDep,
    caller: MayTrace,
    digest: Digest,
    prefer: PreferHeader = None,  # noqa: ARG001 - only documented here: it may come several times, and all are read
    idempotency_key: IdempotencyKeyHeader = None,
) -> TraceRequestReply:
    """Checks the same archive once more, with this budget, beside the model that it was made of.

    What the earlier contract accepts stays accepted, unless the check finds it wrong. If the check finds more, that
    becomes a new artifact and a new version of the model, which is promoted as that of any trace request is. If it
    finds a wrong answer that the artifact promises to be right, the artifact is withdrawn: `/infer` refuses it.
    """
    key = check_idempotency_key(idempotency_key)
    budget = await read_model(request, FurtherBudget)
    status = await run(request, _submit, context, caller, digest, budget, key, telemetry.carry(request.headers))
    return await reply_to_submission(request, response, context, status)


def _submit(
    context: AppContext,
    caller: Caller,
    digest: str,
    budget: CheckBudget,
    key: str | None,
    trace_context: dict[str, str] | None,
) -> TraceStatus:
    planned = context.further_checks.plan(caller.tenant, digest, budget)
    planned = planned.model_copy(update={"trace_context": trace_context})
    idempotency = None if key is None else Idempotency.of(key, planned)
    return context.engine.submit(planned, idempotency, by=caller.actor)
