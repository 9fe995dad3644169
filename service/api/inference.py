"""Inference: tensors in, the artifact's answer out."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, JsonValue

from service.api.body import batches, parse_json, read_json
from service.api.deps import Parts, PartsDep
from service.api.examples import LINEAR_INFERENCE
from service.api.problems import InternalError, problem_responses
from service.domain import inference
from service.domain.artifact import Artifact
from service.domain.errors import (
    AliasNotFound,
    ArtifactNotFound,
    BakedArgument,
    BlobMissing,
    DatatypeMismatch,
    GoldenCaseFailed,
    GraphRaised,
    InferenceTimeout,
    InvalidName,
    InvalidRequest,
    InvalidTensor,
    MalformedJson,
    MethodNotFound,
    MissingInput,
    ModelNotFound,
    PayloadTooLarge,
    PoolSaturated,
    RunnerLost,
    SandboxUnavailable,
    ShapeMismatch,
    ShuttingDown,
    StorageUnavailable,
    StructureMismatch,
    UnexpectedInput,
    UnsupportedMediaType,
    UploadTruncated,
    VersionNotFound,
)
from service.domain.frozen import Frozen
from service.domain.model import ModelRef, ModelVersion
from service.domain.tensor import Datatype, Tensor, unpack
from service.domain.trace_check import Verdict
from service.storage.database import Store

router = APIRouter(tags=["Inference"])

_UNSOUND = "the check rejected this version: its answers are not known to be right"
_NOT_FINITE = 'JSON has no NaN and no infinities: they are "NaN", "Infinity" and "-Infinity".'


class OutputTensor(Frozen):
    """One output."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[JsonValue] = Field(description=f"Row-major, flat. {_NOT_FINITE}")


class InferenceReply(Frozen):
    """The protocol's reply, whichever form the request had."""

    model_name: str
    model_version: str
    id: str | None = Field(None, description="As the request gave it.")
    warnings: list[str] = Field(
        [], description="Why not to trust this, where a rejected version is served all the same."
    )
    outputs: list[OutputTensor]


# --- the forms of a body, in OpenAPI's words -----------------------------------------------------------------

_PARAMETERS = {"type": "object", "description": "Taken, as the protocol has it, and not used."}
_TENSOR_MEMBERS: dict[str, Any] = {
    "name": {"type": "string"},
    "datatype": {"type": "string", "enum": [datatype.value for datatype in Datatype]},
    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "data": {"description": f"Row-major, flat or nested. {_NOT_FINITE}"},
    "parameters": _PARAMETERS,
}
_COMMON_MEMBERS: dict[str, Any] = {
    "id": {"type": "string", "description": "Comes back in the reply."},
    "parameters": _PARAMETERS,
    "outputs": {
        "type": "array",
        "description": "Which outputs to answer with; all of them where this is left out.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "parameters": _PARAMETERS},
        },
    },
}
_PROTOCOL_MEMBERS: dict[str, Any] = {
    "inputs": {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "data"],
            "properties": _TENSOR_MEMBERS,
        },
    }
}
_NESTED = "A tensor is an object as in the protocol's form, or nested lists: then the contract has datatype and shape."
_NAMED_MEMBERS: dict[str, Any] = {
    "inputs": {
        "type": "object",
        "description": f"By an input's name, or by an argument's, nested as it nests. {_NESTED}",
    }
}
_CALL_MEMBERS: dict[str, Any] = {
    "args": {"type": "array", "items": {}, "description": f"In the method's order, nested as they nest. {_NESTED}"},
    "kwargs": {"type": "object", "description": "By the method's names."},
}
_MODEL_MEMBER: dict[str, Any] = {
    "model": {"type": "string", "description": "`name`, `name@alias` or `name:version`.", "examples": ["linear"]}
}


def _request_body(model: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """In the three forms, each with an example that can be sent as it is."""
    x = LINEAR_INFERENCE["inputs"]["x"]
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": x[0]}
    forms: list[tuple[str, list[str], dict[str, Any], dict[str, Any]]] = [
        ("By name", ["inputs"], _NAMED_MEMBERS, LINEAR_INFERENCE),
        ("Open Inference Protocol", ["inputs"], _PROTOCOL_MEMBERS, {"inputs": [tensor]}),
        ("As a call", [], _CALL_MEMBERS, {"args": [x]}),
    ]
    schemas = [
        {
            "title": title,
            "type": "object",
            "additionalProperties": False,
            "required": [*model, *required],
            "properties": {**model, **members, **_COMMON_MEMBERS},
        }
        for title, required, members, _ in forms
    ]
    examples = {title: {"value": example | sent} for title, _, _, sent in forms}
    content = {"application/json": {"schema": {"anyOf": schemas}, "examples": examples}}
    return {"requestBody": {"required": True, "content": content}}


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Warning": {
                "description": "Present where a rejected version is served all the same.",
                "schema": {"type": "string"},
            }
        }
    },
    **problem_responses(
        MalformedJson,
        UploadTruncated,
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
        StructureMismatch,
        BakedArgument,
        GraphRaised,
        InternalError,
        BlobMissing,
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
Device = Annotated[Literal["cpu"], Query(description="Whose artifact answers.")]


@router.post(
    "/infer/{model}",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Ask a model",
    responses=_RESPONSES,
    openapi_extra=_request_body({}, {}),
)
async def infer(
    request: Request,
    parts: PartsDep,
    model: Annotated[
        str,
        Path(
            description="`name`, `name@alias` or `name:version`; the newest version where neither is given.",
            openapi_examples={"linear": {"value": "linear"}},
        ),
    ],
    method: Method = "forward",
    device: Device = "cpu",
) -> Response:
    """Inputs that lie outside the artifact's contract are refused, with the clause: they are never answered.

    The first request after a while starts the process that answers, which takes longer.
    """
    served = await _resolve(parts, model, device)
    return await _answer(parts, served, method, await _read(request, parts.request_max_bytes))


@router.post(
    "/infer",
    response_model=InferenceReply,
    response_model_exclude_unset=True,
    summary="Ask the model that the body names",
    responses=_RESPONSES,
    openapi_extra=_request_body(_MODEL_MEMBER, {"model": "linear"}),
)
async def infer_named(
    request: Request, parts: PartsDep, method: Method = "forward", device: Device = "cpu"
) -> Response:
    """The same as `POST /infer/{model}`, with one more member, `model`."""
    body = await _read(request, parts.request_max_bytes)
    model = body.pop("model", None) if isinstance(body, dict) else None
    if not isinstance(model, str):
        detail = "name the model to ask"
        raise InvalidRequest(f"/model: {detail}", errors=[{"pointer": "/model", "detail": detail}])
    return await _answer(parts, await _resolve(parts, model, device), method, body)


async def _read(request: Request, max_bytes: int) -> JsonValue:
    """A body without a content type is taken for JSON."""
    if "content-type" in request.headers:
        return await read_json(request, max_bytes)
    return parse_json(b"".join([batch async for batch in batches(request, max_bytes)]))


@dataclass(frozen=True, slots=True)
class _Served:
    name: str
    version: ModelVersion
    digest: str
    artifact: Artifact


async def _resolve(parts: Parts, model: str, device: str) -> _Served:
    ref = ModelRef.parse(model)
    return await run_in_threadpool(_find, parts.store, ref, device)


def _find(store: Store, ref: ModelRef, device: str) -> _Served:
    version = store.models.resolve(ref)
    if device not in version.artifacts:
        raise ArtifactNotFound("this version was not traced for that device", devices=sorted(version.artifacts))
    digest = version.artifacts[device]
    return _Served(ref.name, version, digest, _artifact(store, digest))


# Artifacts never change. A manifest with its findings takes some hundred kilobytes as objects.
@lru_cache(maxsize=128)
def _artifact(store: Store, digest: str) -> Artifact:
    return store.artifacts.get(digest)


async def _answer(parts: Parts, served: _Served, method: str, body: JsonValue) -> Response:
    asked = inference.read(body, served.artifact.contract.method(method))
    outputs = await parts.pool.infer(served.artifact, served.digest, method, asked.inputs)
    reply: dict[str, Any] = {"model_name": served.name, "model_version": str(served.version.version)}
    if asked.id is not None:
        reply["id"] = asked.id
    headers = {}
    if served.version.verdict is Verdict.REJECTED:
        reply["warnings"] = [_UNSOUND, *(finding.detail for finding in served.artifact.check.findings)]
        headers["Warning"] = f'299 - "{_UNSOUND}"'
    by_name = {tensor.name: tensor for tensor in outputs}
    reply["outputs"] = [_shown(by_name[name]) for name in asked.outputs]
    return Response(orjson.dumps(reply), media_type="application/json", headers=headers)


def _shown(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "datatype": tensor.datatype.value,
        "shape": tensor.shape,
        "data": unpack(tensor.datatype, tensor.data),
    }
