"""Inference: tensors in, the artifact's answer out."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, JsonValue

from service.api import inference_json
from service.api.context import AppContext, PartsDep
from service.api.http.access import ACCESS_RESPONSES, Caller, MayInfer
from service.api.http.body import aside, check_is_json, parse_json, read_text
from service.api.inference_json import InBucket, InferenceRequest
from service.api.inference_openapi import MODEL_MEMBER, request_body
from service.api.output_tensor import OutputTensor, pieces
from service.api.problems import InternalError, RequestTimeout, problem_responses
from service.domain.errors import (
    AliasNotFound,
    ArtifactNotFound,
    BlobMissing,
    DeviceUnavailable,
    InvalidName,
    MalformedJson,
    ModelNotFound,
    PayloadTooLarge,
    PoolSaturated,
    SandboxUnavailable,
    ShuttingDown,
    StorageUnavailable,
    UnsupportedMediaType,
    UploadTruncated,
    VersionNotFound,
)
from service.domain.model import Bucket, ModelRef, ModelVersion
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.errors import (
    AnswerTooLarge,
    BakedArgument,
    DatatypeMismatch,
    GoldenCaseFailed,
    GraphRaised,
    InferenceTimeout,
    InvalidRequest,
    InvalidTensor,
    MethodNotFound,
    MissingInput,
    NoBucket,
    RunnerLost,
    ShapeMismatch,
    SizeOutOfRange,
    SizesDisagree,
    StructureMismatch,
    UnexpectedInput,
    ValueOutOfRange,
)
from tracehouse.findings.trace_check import Verdict
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import DeviceName
from tracehouse.tensors.tensor import Tensor

router = APIRouter(tags=["Inference"], responses=ACCESS_RESPONSES)

_UNSOUND = "the check rejected this version: its answers are not known to be right"
_UNTRIED = "these sizes were never tried: the answer is not known to be right"


class InferenceReply(Frozen):
    """The protocol's reply, whichever form the request had."""

    model_name: str
    model_version: str
    id: str | None = Field(None, description="As the request gave it.")
    warnings: list[str] = Field(
        [],
        description="Why not to trust this: where a rejected version is served all the same, or where its contract is "
        "open and these sizes were never tried.",
    )
    outputs: list[OutputTensor]


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Warning": {
                "description": "Present where a rejected version is served all the same, or sizes that were never "
                "tried are answered.",
                "schema": {"type": "string"},
            }
        }
    },
    **problem_responses(
        MalformedJson,
        UploadTruncated,
        RequestTimeout,
        ModelNotFound,
        VersionNotFound,
        AliasNotFound,
        ArtifactNotFound,
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
        SizeOutOfRange,
        NoBucket,
        ValueOutOfRange,
        StructureMismatch,
        BakedArgument,
        GraphRaised,
        AnswerTooLarge,
        InternalError,
        BlobMissing,
        DeviceUnavailable,
        RunnerLost,
        GoldenCaseFailed,
        PoolSaturated,
        SandboxUnavailable,
        StorageUnavailable,
        ShuttingDown,
        InferenceTimeout,
    ),
}

Method = Annotated[str, Query(description="Which of the traced methods to call.", max_length=200)]
Device = Annotated[
    DeviceName | None,
    Query(description="Whose artifact answers. Left out: `cpu` where it was traced there, else the device it has."),
]


@router.post(
    "/infer/{model}",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Ask a model",
    responses=_RESPONSES,
    openapi_extra=request_body({}, {}),
)
async def infer(
    request: Request,
    parts: PartsDep,
    caller: MayInfer,
    model: Annotated[
        str,
        Path(
            description="`name`, `name@alias` or `name:version`; the newest version where neither is given.",
            openapi_examples={"linear": {"value": "linear"}},
        ),
    ],
    method: Method = "forward",
    device: Device = None,
) -> Response:
    """Inputs that lie outside the artifact's contract are refused, with the clause: they are never answered. Where it
    was traced with an open contract, sizes that were never tried are answered with a warning.

    Of a version with buckets, the artifact that takes the inputs' sizes answers.

    The first request after a while starts the process that answers, which takes longer.
    """
    served = await _resolve(parts, caller, model, device)
    text = await _read(request, parts.request_max_bytes)
    return await _answer(parts, caller, served, method, await aside(len(text), parse_json, text), len(text))


@router.post(
    "/infer",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Ask the model that the body names",
    responses=_RESPONSES,
    openapi_extra=request_body(MODEL_MEMBER, {"model": "linear"}),
)
async def infer_named(
    request: Request, parts: PartsDep, caller: MayInfer, method: Method = "forward", device: Device = None
) -> Response:
    """The same as `POST /infer/{model}`, with one more member, `model`."""
    text = await _read(request, parts.request_max_bytes)
    body = await aside(len(text), parse_json, text)
    model = body.pop("model", None) if isinstance(body, dict) else None
    if not isinstance(model, str):
        detail = "name the model to ask"
        raise InvalidRequest(f"/model: {detail}", errors=[{"pointer": "/model", "detail": detail}])
    return await _answer(parts, caller, await _resolve(parts, caller, model, device), method, body, len(text))


async def _read(request: Request, max_bytes: int) -> bytes:
    """A body without a content type is taken for JSON."""
    if "content-type" in request.headers:
        check_is_json(request)
    return await read_text(request, max_bytes)


@dataclass(frozen=True, slots=True)
class _Served:
    name: str
    version: ModelVersion
    choices: list["_Choice"]


@dataclass(frozen=True, slots=True)
class _Choice:
    """An artifact that may answer: the one, or that of a bucket."""

    digest: str
    sizes: dict[str, int]
    contract: Contract


async def _resolve(parts: AppContext, caller: Caller, model: str, device: DeviceName | None) -> _Served:
    ref = ModelRef.parse(model)
    return await run_in_threadpool(_find, parts.store, caller.tenant, ref, device)


def _find(store: Store, tenant: str, ref: ModelRef, device: DeviceName | None) -> _Served:
    version = store.models.resolve(tenant, ref)
    devices = sorted(version.artifacts)  # cpu is the first
    wanted = device or devices[0]
    if wanted not in version.artifacts:
        raise ArtifactNotFound(
            f"this version was traced for {', '.join(devices)}, and not for {wanted}",
            devices=devices, remedy="ask for a device that it was traced for, or trace it with `devices`",
        )  # fmt: skip
    buckets = [bucket for bucket in version.buckets if bucket.device == wanted]
    buckets = buckets or [Bucket(device=wanted, sizes={}, digest=version.artifacts[wanted])]
    choices = [_Choice(each.digest, each.sizes, _contract(store, tenant, each.digest)) for each in buckets]
    return _Served(ref.name, version, choices)


# Artifacts never change; whether the tenant has it is part of the question.
# A manifest with its findings takes some hundred kilobytes as objects.
@lru_cache(maxsize=32)
def _artifact(store: Store, tenant: str, digest: str) -> Artifact:
    return store.artifacts.get(tenant, digest)


# Contracts are kept longer: of a model with buckets, each request looks at those of all.
@lru_cache(maxsize=512)
def _contract(store: Store, tenant: str, digest: str) -> Contract:
    return _artifact(store, tenant, digest).contract


async def _answer(
    parts: AppContext, caller: Caller, served: _Served, method: str, body: JsonValue, byte_size: int
) -> Response:
    buckets = [InBucket(choice.sizes, choice.contract.method(method)) for choice in served.choices]
    is_open = served.choices[0].contract.open
    asked = await aside(byte_size, inference_json.read_for_one, body, buckets, is_open=is_open)
    digest = served.choices[asked.bucket].digest
    artifact = await run_in_threadpool(_artifact, parts.store, caller.tenant, digest)
    outputs = await parts.pool.infer(caller.tenant, artifact, digest, method, asked.inputs)
    reply: dict[str, Any] = {"model_name": served.name, "model_version": str(served.version.version)}
    if asked.id is not None:
        reply["id"] = asked.id
    headers = {}
    if warned := _warnings(served.version, artifact, asked):
        reply["warnings"] = [text for warning, details in warned.items() for text in (warning, *details)]
        headers["Warning"] = ", ".join(f'299 - "{warning}"' for warning in warned)
    by_name = {tensor.name: tensor for tensor in outputs}
    shown = [by_name[name] for name in asked.outputs]
    text = await aside(sum(len(tensor.data) for tensor in shown), _written, reply, shown)
    return Response(text, media_type="application/json", headers=headers)


def _warnings(version: ModelVersion, artifact: Artifact, asked: InferenceRequest) -> dict[str, list[str]]:
    """Why not to trust the answer, each with what there is to say about it."""
    warned: dict[str, list[str]] = {}
    if version.verdict is Verdict.REJECTED:
        warned[_UNSOUND] = [finding.detail for finding in artifact.check.findings]
    if asked.warnings:
        warned[_UNTRIED] = [*asked.warnings]
    return warned


def _written(reply: dict[str, Any], outputs: list[Tensor]) -> bytes:
    written = [orjson.Fragment(b"".join(pieces(tensor))) for tensor in outputs]
    return orjson.dumps({**reply, "outputs": written})
