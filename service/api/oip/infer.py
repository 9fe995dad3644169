"""The protocol's inference routes, with tensors as JSON or as bytes, both ways."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import orjson
from fastapi import APIRouter, Request, Response

from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_RESPONSES
from service.api.http.body import copy_aside, go_on_aside, parse_aside
from service.api.http.in_turn import while_connected
from service.api.inference import INFERENCE_ERRORS, failure_of, json_reply, refuse_if_full, warning_headers
from service.api.inference_openapi import PROTOCOL_REQUEST
from service.api.oip import binary_body
from service.api.oip.binary_body import JSON_BYTES_HEADER
from service.api.oip.model_ref import MODEL, MODEL_VERSION, Default, Versioned
from service.api.oip.request import ProtocolRequest, expect_by_contract
from service.api.output_tensor import OutputTensor, json_pieces, reply_pieces
from service.api.problems import problem_responses
from service.domain.errors import MalformedHeader, NotSupported
from service.serving.inference import InferenceResult, ServedModel
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor

router = APIRouter(tags=["Open Inference Protocol"], responses=ACCESS_RESPONSES)


class ProtocolReply(Frozen):
    """The protocol's reply. An output whose bytes follow the JSON has `parameters.binary_data_size` and no `data`."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, str | int | bool] | None = None
    outputs: list[OutputTensor]


_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ProtocolReply,
        "headers": {
            JSON_BYTES_HEADER: {
                "description": "The length of the JSON, if bytes of tensors follow it.",
                "schema": {"type": "integer"},
            }
        },
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    **problem_responses(*INFERENCE_ERRORS, MalformedHeader, NotSupported),
}


@router.post(f"{MODEL}/infer", summary="Run inference in the protocol's form", responses=_RESPONSES,
             openapi_extra=PROTOCOL_REQUEST)  # fmt: skip
async def protocol_infer(request: Request, context: ContextDep, served: Default) -> Response:
    """Does what `POST /infer/{model}` does, for the official clients of Triton and of KServe.

    An input with `parameters.binary_data_size` has its bytes after the JSON, whose length the header
    `Inference-Header-Content-Length` says; with 0 there, the body is the one input of a model that has one. An output
    with `parameters.binary_data`, or all with the request's `parameters.binary_data_output`, come as bytes.
    Such a body may be as large as the largest call that the contract takes. gzip and deflate are taken, of bodies that
    are no larger than JSON may be when they are unpacked, and replied to a client whose `Accept-Encoding` names just
    one of them.

    `parameters.method` names the method. `parameters.timeout` is in microseconds: an answer that takes longer is
    refused as `inference-timeout`. `parameters.seed` seeds random numbers.
    """
    return await _infer(request, context, served)


@router.post(f"{MODEL_VERSION}/infer", summary="Run inference on a version in the protocol's form",
             responses=_RESPONSES, openapi_extra=PROTOCOL_REQUEST)  # fmt: skip
async def protocol_infer_version(request: Request, context: ContextDep, served: Versioned) -> Response:
    """Does what `POST /v2/models/{name}/infer` does, for one version."""
    return await _infer(request, context, served)


async def _infer(request: Request, context: AppContext, served: ServedModel) -> Response:
    refuse_if_full(request, context, served)
    json_most_bytes = context.limits.request_max_bytes
    body = await binary_body.read_body(request, _most_bytes(request, context, served), json_most_bytes)
    expect = partial(expect_by_contract, served.all_contracts)
    asked = await parse_aside(request, len(body.json), ProtocolRequest.parse, body.json, expect)
    tensors = await copy_aside(request, len(body.tensors), asked.read_tensors, body.tensors)
    asking = context.inference.answer(
        served,
        asked.method,
        tensors,
        [*asked.outputs],
        seed=asked.parameters.seed,
        timeout_s=asked.parameters.timeout_s,
        failure=failure_of(request),
    )
    answer = await while_connected(request, asking)
    return await _reply(request, answer, asked.id, asked.outputs)


def _most_bytes(request: Request, context: AppContext, served: ServedModel) -> int:
    """Return how many bytes the body may have: with tensors as bytes, as many as the contract takes beside the JSON."""
    json_most = context.limits.request_max_bytes
    if JSON_BYTES_HEADER not in request.headers:
        return json_most
    return served.body_max_bytes(json_most, context.limits.upload_max_bytes)


async def _reply(
    request: Request, answer: InferenceResult, request_id: str | None, wanted: Mapping[str, bool]
) -> Response:
    encoding = binary_body.encoding_of_reply(request.headers.get("accept-encoding", ""))
    if not any(wanted.values()) and encoding is None:
        members, headers = protocol_members(answer, request_id)
        return json_reply(request, members, answer, headers)
    byte_size = sum(len(tensor.data) for tensor in answer.outputs)
    only_copies = all(wanted.values()) and encoding is None
    aside = copy_aside if only_copies else go_on_aside
    reply = await aside(request, byte_size, whole_reply, answer, request_id, wanted, encoding)
    return Response(reply.content, media_type=reply.media_type, headers=reply.headers)


class WholeReply(NamedTuple):
    """A reply as it is sent."""

    content: bytes
    media_type: str
    headers: dict[str, str]


def whole_reply(
    answer: InferenceResult, request_id: str | None, wanted: Mapping[str, bool], encoding: str | None
) -> WholeReply:
    """Return the reply with the outputs that are `wanted`, as bytes or as JSON."""
    members, headers = protocol_members(answer, request_id)
    if not any(wanted.values()) and encoding is None:
        content = b"".join(reply_pieces(members, answer.outputs, answer.complex_outputs))
        return WholeReply(content, "application/json", headers)
    outputs = [
        _output(tensor, is_binary=wanted[tensor.name], is_complex=tensor.name in answer.complex_outputs)
        for tensor in answer.outputs
    ]
    binary = [tensor.data for tensor in answer.outputs if wanted[tensor.name]]
    content, json_bytes = binary_body.join_body({**members, "outputs": outputs}, binary)
    if binary:
        headers = {**headers, JSON_BYTES_HEADER: str(json_bytes)}
    if encoding is not None:
        content, headers = binary_body.pack(content, encoding), {**headers, "Content-Encoding": encoding}
    return WholeReply(content, "application/octet-stream" if binary else "application/json", headers)


def protocol_members(answer: InferenceResult, request_id: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the reply's members beside its outputs, and its headers."""
    members: dict[str, Any] = {"model_name": answer.model_name, "model_version": str(answer.model_version)}
    if request_id is not None:
        members["id"] = request_id
    parameters: dict[str, object] = {} if answer.seed is None else {"seed": answer.seed}
    if answer.warnings:
        parameters["warning"] = "; ".join(warning.text for warning in answer.warnings)
    if parameters:
        members["parameters"] = parameters
    return members, warning_headers(answer.warnings)


def _output(tensor: Tensor, *, is_binary: bool, is_complex: bool) -> object:
    if not is_binary:
        return orjson.Fragment(b"".join(json_pieces(tensor, is_complex=is_complex)))
    parameters: dict[str, object] = {"binary_data_size": len(tensor.data)}
    if is_complex:
        parameters["complex"] = True
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape, "parameters": parameters}
