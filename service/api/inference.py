"""Inference over HTTP: JSON is parsed into tensors here, and the answer is written as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from service.api import inference_json
from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_RESPONSES, MayInfer
from service.api.http.body import SMALL_BYTES, check_is_json, parse_aside, read_text
from service.api.http.held import hold_reply
from service.api.http.in_turn import Stream, while_connected
from service.api.inference_forms import Form
from service.api.inference_json import ID_MAX, SEED_MAX, Expected, InferenceBody
from service.api.inference_openapi import BINARY_REPLIES, BINARY_REQUESTS, MODEL_MEMBER, REPLY_HEADERS, request_body
from service.api.output_tensor import OutputTensor, reply_pieces
from service.api.picture_bodies import read_picture
from service.api.problems import InternalError, RequestTimeout, problem_responses
from service.api.tensor_bodies import BytesLayout, form_of, invalid_query, read_tensors
from service.api.tensor_replies import bytes_reply, choose_form, wanted_forms, wanted_outputs
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
    NotAcceptable,
    PayloadTooLarge,
    PictureNotTaken,
    PoolMemoryShort,
    PoolSaturated,
    ProcessLost,
    ReleaseTooOld,
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
    MalformedTensors,
    MethodNotFound,
    MissingInput,
    NoBucket,
    PictureUnreadable,
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
from tracehouse.tensors.tensor import Datatype

# The path of the route that answers most requests.
INFER = "/infer/{model}"

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
    ReleaseTooOld,
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
            },
            **REPLY_HEADERS,
        },
        "content": BINARY_REPLIES,
    },
    **problem_responses(*INFERENCE_ERRORS, NotAcceptable, MalformedTensors, PictureNotTaken, PictureUnreadable),
}

_AS_BYTES = "Only for a body that is not JSON, which says it itself."

Method = Annotated[str, Query(description="The traced method to call.", max_length=200)]
Device = Annotated[
    DeviceName | None,
    Query(description="The device whose artifact answers. Default: `cpu` if it was traced there, else its device."),
]

Seed = Annotated[
    int | None,
    Query(ge=0, le=SEED_MAX, description=f"Seeds the random numbers of a method that draws some. {_AS_BYTES}"),
]
Outputs = Annotated[
    list[str] | None,
    Query(alias="output", description=f"An output to return; it may be repeated. Default: all. {_AS_BYTES}"),
]
RequestId = Annotated[
    str | None, Query(alias="id", max_length=ID_MAX, description=f"The reply repeats it. {_AS_BYTES}")
]
ShapeText = Annotated[
    str | None,
    Query(
        alias="shape",
        pattern=r"^([0-9]{1,15}(,[0-9]{1,15}){0,31})?$",
        description="The shape of the tensor in a body of type `application/octet-stream`, such as `2,3`. It may be "
        "left out if the contract and the number of bytes tell it.",
    ),
]
SentDatatype = Annotated[
    Datatype | None,
    Query(
        alias="datatype",
        description="The datatype of the tensor in a body of type `application/octet-stream`. It may be left out if "
        "the contract takes only one.",
    ),
]


@router.post(
    INFER,
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Run inference",
    responses=_RESPONSES,
    openapi_extra=request_body({}, {}, BINARY_REQUESTS),
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
    seed: Seed = None,
    outputs: Outputs = None,
    request_id: RequestId = None,
    shape: ShapeText = None,
    datatype: SentDatatype = None,
) -> Response:
    """Inputs outside the artifact's contract are never answered: the problem names the clause that they break. If the
    contract is open, sizes that were never tried are answered with a warning.

    The body is JSON in one of three forms, or has tensors as bytes: a safetensors file or an `.npz` archive with the
    contract's inputs under their names, or the one input of a method that has one, as an `.npy` file or as its
    row-major little-endian bytes alone. Datatypes are those of the contract: nothing is converted. Such a body may be
    as large as the largest call that the contract takes. It may be a PNG or JPEG picture, if the request that made the
    version has one among the samples of its check, and says in `image` how it becomes the one input.

    `Accept` says in which form the answer comes; by default, it is JSON.

    If the contract says that the method is `stochastic`, each request draws other random numbers, and the reply says
    the seed. With `parameters.seed`, the answer is that of the eager model after `torch.manual_seed(seed)`. A seed
    changes nothing in the answer of a method that draws none.

    If the version has buckets, the bucket whose contract takes the inputs' sizes answers.

    The first request after a while starts the process that answers, and takes longer.
    """
    wanted, form = wanted_forms(request), form_of(request)
    said = _Said(seed, outputs, request_id, shape, datatype)
    said.check(form)
    served = await context.inference.find(caller.tenant, model, device)
    refuse_if_full(request, context, served)
    asked = await _read(request, context, served, method, form, said)
    return await _answer(request, context, served, method, asked, wanted)


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
    """Does what `POST /infer/{model}` does with JSON; the member `model` names the model."""
    wanted = wanted_forms(request)
    if form_of(request) is not Form.JSON:
        raise UnsupportedMediaType(
            "this route takes application/json, which names the model",
            supported=[Form.JSON], remedy="Name the model in the path: `POST /infer/{model}` takes tensors as bytes.",
        )  # fmt: skip
    text = await _read_text(request, context)
    model = inference_json.find_model(text)
    if model is None:
        model = await parse_aside(request, len(text), inference_json.parse_model, text)
    served = await context.inference.find(caller.tenant, model, device)
    refuse_if_full(request, context, served)
    read = partial(inference_json.parse, model=model)
    asked = await parse_aside(request, len(text), read, text, served.method(method).contracts)
    return await _answer(request, context, served, method, asked, wanted)


@dataclass(frozen=True, slots=True)
class _Said:
    """What the query says of a request whose body has only tensors."""

    seed: int | None
    outputs: list[str] | None
    id: str | None
    shape: str | None
    datatype: Datatype | None

    def check(self, form: Form) -> None:
        """Raise InvalidRequest for what a body in this form says itself."""
        in_json = {"seed": self.seed, "output": self.outputs, "id": self.id}
        of_bytes = {"shape": self.shape, "datatype": self.datatype}
        for parameter, value in (in_json if form is Form.JSON else {}).items():
            if value is not None:
                raise invalid_query(parameter, "a body of JSON says it itself: write it there")
        for parameter, value in (of_bytes if form is not Form.BYTES else {}).items():
            if value is not None:
                raise invalid_query(parameter, f"only a body of type {Form.BYTES} does not say it itself")

    def layout(self) -> BytesLayout:
        dims = None if self.shape is None else tuple(int(dim) for dim in self.shape.split(",") if dim)
        return BytesLayout(self.datatype, dims)

    def output_names(self, known: Sequence[str]) -> list[str]:
        """Return the outputs to answer with, in their order. Raises InvalidRequest."""
        if self.outputs is None:
            return [*known]
        if unknown := [name for name in self.outputs if name not in known]:
            raise invalid_query("output", f"there is no output {unknown[0][:80]!r}: there is {', '.join(known)}")
        return [*dict.fromkeys(self.outputs)]


async def _read(
    request: Request, context: AppContext, served: ServedModel, method: str, form: Form, said: _Said
) -> InferenceBody:
    asked = served.method(method)
    if form is Form.JSON:
        text = await _read_text(request, context)
        return await parse_aside(request, len(text), inference_json.parse, text, asked.contracts)
    limits = context.limits
    expected = asked.once(Expected.of)
    outputs = said.output_names([spec.name for spec in expected.method.outputs])
    if form.is_picture:
        tensors = await read_picture(request, context, served, method, form)
    else:
        most_bytes = served.body_max_bytes(limits.request_max_bytes, limits.upload_max_bytes)
        tensors = await read_tensors(request, form, most_bytes, expected, said.layout())
    return InferenceBody(tensors, outputs, said.id, said.seed)


async def _read_text(request: Request, context: AppContext) -> bytes:
    """Read a body of JSON, which may have no content type."""
    if "content-type" in request.headers:
        check_is_json(request)
    return await read_text(request, context.limits.request_max_bytes)


async def _answer(
    request: Request, context: AppContext, model: ServedModel, method: str, asked: InferenceBody, wanted: Sequence[str]
) -> Response:
    outputs = wanted_outputs(model.method(method).contracts[0], asked.tensors, asked.outputs)
    kind = choose_form(wanted, outputs)
    asking = context.inference.answer(
        model, method, asked.tensors, asked.outputs, seed=asked.seed, failure=failure_of(request)
    )
    answer = await while_connected(request, asking)
    headers = warning_headers(answer.warnings)
    if kind == Form.JSON:
        return json_reply(request, reply_members(answer, asked.id), answer, headers)
    return await bytes_reply(request, kind, answer, asked.id, headers)


def refuse_if_full(request: Request, context: AppContext, served: ServedModel) -> None:
    """Refuse a request that could not be answered now, before its body is read. Raises what `Inference` raises.

    Whoever waits for `100 Continue` gets the refusal in its place.
    """
    if failure_of(request) is None:
        context.inference.refuse_if_full(served)


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
