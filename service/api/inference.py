"""Inference over HTTP: JSON is parsed into tensors here, and the answer is written as JSON."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from service.api import inference_json
from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_RESPONSES, MayInfer
from service.api.http.body import SMALL_BYTES, check_is_json, parse_aside, read_text
from service.api.http.held import hold_reply
from service.api.http.in_turn import Stream
from service.api.inference_json import InferenceBody
from service.api.inference_openapi import MODEL_MEMBER, request_body
from service.api.output_tensor import OutputTensor, reply_pieces
from service.api.problems import InternalError, RequestTimeout, problem_responses
from service.domain.errors import (
    AliasNotFound,
    ArtifactNotFound,
    ArtifactWithdrawn,
    BlobMissing,
    ContentDamaged,
    DeviceUnavailable,
    FilesUnavailable,
    InvalidName,
    MalformedJson,
    ModelNotFound,
    PayloadTooLarge,
    PoolMemoryShort,
    PoolSaturated,
    ProcessLost,
    SandboxUnavailable,
    ShuttingDown,
    StorageUnavailable,
    TooMuchArrives,
    TooMuchUnread,
    TooMuchWorkWaits,
    UnsupportedMediaType,
    UploadTruncated,
    VersionNotFound,
)
from service.serving.inference import AnswerWarning, InferenceResult, ServedModel
from tracehouse.contract.structure import Structure
from tracehouse.errors import (
    AnswerTooLarge,
    BakedArgument,
    DatatypeMismatch,
    GoldenCaseFailed,
    GraphRaised,
    InferenceTimeout,
    InvalidRequest,
    InvalidTensor,
    KeyOrderMismatch,
    MethodNotFound,
    MissingInput,
    NoBucket,
    RunnerLost,
    ShapeMismatch,
    SizeOutOfRange,
    SizesDisagree,
    StructureMismatch,
    TooMuchMemory,
    UnexpectedInput,
    ValueOutOfRange,
)
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import DeviceName

router = APIRouter(tags=["Inference"], responses=ACCESS_RESPONSES)


class ReplyParameters(Frozen):
    """What else is to be said of an answer, in the protocol's place for it."""

    seed: int = Field(description="The seed of the random numbers: sent again, it gives the same answer again.")


class InferenceReply(Frozen):
    """The reply of the Open Inference Protocol, whichever form the request has."""

    model_name: str
    model_version: str
    id: str | None = Field(None, description="The request's id, if it has one.")
    parameters: ReplyParameters | None = Field(
        None,
        description="Present if the method draws random numbers (`stochastic` in its contract), or a seed was sent.",
    )
    warnings: list[str] = Field(
        [],
        description="Why not to trust the answer: the version was rejected and is served all the same, or its contract "
        "is open and sizes like these were never tried.",
    )
    outputs: list[OutputTensor]
    returns: Structure | None = Field(
        None,
        description="How what the method returns nests, with its constants in their places. Present if the method "
        "returns constants or complex tensors beside the tensors in `outputs`, which it names.",
    )


# The state of a request that was asked before it came here has what that failed with under this name.
FAILURE = "failure"

# What asking a model can end with.
INFERENCE_ERRORS = (
    MalformedJson,
    UploadTruncated,
    RequestTimeout,
    ModelNotFound,
    VersionNotFound,
    AliasNotFound,
    ArtifactNotFound,
    ArtifactWithdrawn,
    MethodNotFound,
    PayloadTooLarge,
    UnsupportedMediaType,
    InvalidRequest,
    InvalidName,
    InvalidTensor,
    MissingInput,
    UnexpectedInput,
    DatatypeMismatch,
    ShapeMismatch,
    SizesDisagree,
    TooMuchMemory,
    SizeOutOfRange,
    NoBucket,
    ValueOutOfRange,
    StructureMismatch,
    KeyOrderMismatch,
    BakedArgument,
    GraphRaised,
    AnswerTooLarge,
    InternalError,
    BlobMissing,
    ContentDamaged,
    DeviceUnavailable,
    RunnerLost,
    GoldenCaseFailed,
    PoolMemoryShort,
    PoolSaturated,
    SandboxUnavailable,
    StorageUnavailable,
    FilesUnavailable,
    ShuttingDown,
    TooMuchWorkWaits,
    ProcessLost,
    TooMuchArrives,
    TooMuchUnread,
    InferenceTimeout,
)

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Warning": {
                "description": "Present if the version was rejected and is served all the same, or if sizes that were "
                "never tried are answered.",
                "schema": {"type": "string"},
            }
        }
    },
    **problem_responses(*INFERENCE_ERRORS),
}

Method = Annotated[str, Query(description="The traced method to call.", max_length=200)]
Device = Annotated[
    DeviceName | None,
    Query(description="The device whose artifact answers. Default: `cpu` if it was traced there, else its device."),
]


@router.post(
    "/infer/{model}",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Run inference",
    responses=_RESPONSES,
    openapi_extra=request_body({}, {}),
)
async def infer(
    request: Request,
    context: ContextDep,
    caller: MayInfer,
    model: Annotated[
        str,
        Path(
            description="`name`, `name@alias` or `name:version`; `name` alone is the default version.",
            openapi_examples={"linear": {"value": "linear"}},
        ),
    ],
    method: Method = "forward",
    device: Device = None,
) -> Response:
    """Inputs outside the artifact's contract are never answered: the problem names the clause that they break. If the
    contract is open, sizes that were never tried are answered with a warning.

    If the contract says that the method is `stochastic`, each request draws other random numbers, and the reply says
    the seed. With `parameters.seed`, the answer is that of the eager model after `torch.manual_seed(seed)`. A seed
    changes nothing in the answer of a method that draws none.

    If the version has buckets, the bucket whose contract takes the inputs' sizes answers.

    The first request after a while starts the process that answers, and takes longer.
    """
    served = await context.inference.find(caller.tenant, model, device)
    text = await _read(request, context.limits.request_max_bytes)
    asked = await parse_aside(request, len(text), inference_json.parse, text, served.method(method).contracts)
    return await _answer(request, context, served, method, asked)


@router.post(
    "/infer",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Run inference on the model that the body names",
    responses=_RESPONSES,
    openapi_extra=request_body(MODEL_MEMBER, {"model": "linear"}),
)
async def infer_named(
    request: Request, context: ContextDep, caller: MayInfer, method: Method = "forward", device: Device = None
) -> Response:
    """Does what `POST /infer/{model}` does; the member `model` names the model."""
    text = await _read(request, context.limits.request_max_bytes)
    model = await parse_aside(request, len(text), inference_json.parse_model, text)
    served = await context.inference.find(caller.tenant, model, device)
    read = partial(inference_json.parse, names_model=True)
    asked = await parse_aside(request, len(text), read, text, served.method(method).contracts)
    return await _answer(request, context, served, method, asked)


async def _read(request: Request, max_bytes: int) -> bytes:
    """Read the body, which is taken for JSON if it has no content type."""
    if "content-type" in request.headers:
        check_is_json(request)
    return await read_text(request, max_bytes)


async def _answer(
    request: Request, context: AppContext, model: ServedModel, method: str, asked: InferenceBody
) -> Response:
    answer = await context.inference.answer(
        model, method, asked.tensors, asked.outputs, seed=asked.seed, failure=failure_of(request)
    )
    return json_reply(request, reply_members(answer, asked.id), answer, warning_headers(answer.warnings))


def failure_of(request: Request) -> Exception | None:
    """Return the failure with which the request was answered before it came here, if it was."""
    failure: Exception | None = request.scope["state"].get(FAILURE)
    return failure


def reply_members(answer: InferenceResult, request_id: str | None) -> dict[str, Any]:
    """Return the members of a reply beside its outputs."""
    members: dict[str, Any] = {"model_name": answer.model_name, "model_version": str(answer.model_version)}
    if request_id is not None:
        members["id"] = request_id
    if answer.seed is not None:
        members["parameters"] = {"seed": answer.seed}
    if answer.warnings:
        members["warnings"] = [text for warning in answer.warnings for text in (warning.text, *warning.details)]
    if not answer.has_only_tensors:
        members["returns"] = answer.returns.model_dump(mode="json")
    return members


def json_reply(
    request: Request, members: Mapping[str, Any], answer: InferenceResult, headers: Mapping[str, str]
) -> Response:
    """Return the members, and the outputs after them. Raises TooMuchUnread."""
    pieces = reply_pieces(members, answer.outputs, answer.complex_outputs)
    byte_size = sum(len(tensor.data) for tensor in answer.outputs)
    if byte_size <= SMALL_BYTES:
        return Response(b"".join(pieces), media_type="application/json", headers=headers)
    # As JSON, an answer is several times as large: it is written while its client reads it.
    hold_reply(request, byte_size)
    return Stream(request, pieces, media_type="application/json", headers=headers)


def warning_headers(warnings: Sequence[AnswerWarning]) -> dict[str, str]:
    """Return the header that says why not to trust an answer; none if there is no reason."""
    return {"Warning": ", ".join(f'299 - "{warning.text}"' for warning in warnings)} if warnings else {}
