"""Eager outputs: what the model returned in mode eager."""

from collections.abc import Generator
from typing import Annotated, BinaryIO, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response

from service.api.context import ContextDep
from service.api.downloads import BLOB_ERRORS, IMMUTABLE, attachment, partial_responses
from service.api.http.access import ACCESS_RESPONSES, MayRead
from service.api.http.in_turn import InTurn, Stream, transfers_files
from service.api.output_tensor import OutputTensor, json_pieces
from service.api.problems import RangeNotSatisfiable, problem_responses
from service.api.trace_requests import RequestId
from service.domain.eager_outputs import EagerCall, EagerOutputs
from service.domain.errors import OutputsNotFound, TraceRequestNotFound
from tracehouse.contract.structure import complex_tensors_of
from tracehouse.errors import AnswerTooLarge, InvalidRequest
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES, route_class=InTurn)


class EagerCallReply(EagerCall):
    """One call: `returns` is the structure of what the model returned, with constants; `outputs` the tensors."""

    outputs: list[OutputTensor]


class EagerOutputsReply(Frozen):
    """The calls with each method's example, then those with the check inputs in their order."""

    calls: list[EagerCallReply]


@router.get(
    "/trace/{id}/outputs",
    response_model=EagerOutputsReply,
    summary="Read what the model returned, in mode eager",
    responses={
        200: {
            "description": "JSON, or a safetensors file whose tensors are called `<call>.<leaf>`.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        **partial_responses(),
        **problem_responses(
            InvalidRequest, TraceRequestNotFound, OutputsNotFound, AnswerTooLarge, RangeNotSatisfiable, *BLOB_ERRORS
        ),
    },
)
@transfers_files
def get_outputs(
    request: Request,
    context: ContextDep,
    caller: MayRead,
    request_id: RequestId,
    form: Annotated[
        Literal["json", "safetensors"], Query(alias="format", description="`safetensors` has no limit on its size.")
    ] = "json",
) -> Response:
    """Returns the outputs of every call: with the example inputs and with the check inputs."""
    blob = context.store.trace_requests.status(caller.tenant, request_id).outputs
    if blob is None:
        raise OutputsNotFound("there are no outputs of this trace request", id=request_id)
    if form == "safetensors":
        return attachment(request, context.store.blobs, blob, filename=f"{request_id[:12]}.safetensors")
    if blob.byte_size > context.limits.answer_max_bytes:
        raise AnswerTooLarge(
            f"the outputs have {blob.byte_size} bytes, and an answer may have {context.limits.answer_max_bytes}",
            limit=context.limits.answer_max_bytes, remedy="ask for them with format=safetensors",
        )  # fmt: skip
    content = _write(context.store.blobs.open(blob.digest))
    return Stream(request, content, media_type="application/json", headers=IMMUTABLE)


def _write(file: BinaryIO) -> Generator[bytes, None, None]:
    with file:
        outputs = EagerOutputs(file)
        yield b'{"calls":['
        for place, call in enumerate(outputs.calls):
            yield (b"," if place else b"") + orjson.dumps(call.model_dump(mode="json"))[:-1] + b',"outputs":['
            complex_outputs = complex_tensors_of(call.returns)
            for number, tensor in enumerate(outputs.outputs(place)):
                yield b"," if number else b""
                yield from json_pieces(tensor, is_complex=tensor.name in complex_outputs)
            yield b"]}"
        yield b"]}"
