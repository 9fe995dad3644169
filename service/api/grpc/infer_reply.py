"""The reply to a request for inference over gRPC: a message with the bytes of the outputs at its end."""

from collections.abc import Iterator, Mapping

from service.api.grpc import open_inference_pb2 as messages
from service.api.grpc.statuses import PROBLEM_KEY
from service.api.oip.infer import protocol_members
from service.serving.inference import InferenceResult

# The numbers of the fields in their messages, and that a length follows.
_RAW_OUTPUT_CONTENTS = bytes([6 << 3 | 2])
_INFER_RESPONSE = bytes([2 << 3 | 2])

# Triton has it in each reply on a stream. A model there may have several replies, here it has one.
_FINAL = {"triton_final_response": True}


def write(answer: InferenceResult, request_id: str | None) -> bytes:
    """Return a ModelInferResponse. The outputs' bytes are joined to it as protobuf writes them, without a copy more."""
    return b"".join([_head(answer, request_id, {}), *_raw_contents(answer)])


def write_streamed(answer: InferenceResult, request_id: str | None) -> bytes:
    """Return a ModelStreamInferResponse with the answer."""
    pieces = [_head(answer, request_id, _FINAL), *_raw_contents(answer)]
    return b"".join([_INFER_RESPONSE + _varint(sum(map(len, pieces))), *pieces])


def write_failure(details: str, request_id: str, problem: str) -> bytes:
    """Return a ModelStreamInferResponse that says what is wrong with the request of this id.

    Triton's has the `id` too, so that a client knows which request failed.
    """
    reply = messages.ModelInferResponse(id=request_id, parameters=_parameters({**_FINAL, PROBLEM_KEY: problem}))
    return messages.ModelStreamInferResponse(error_message=details, infer_response=reply).SerializeToString()


def _head(answer: InferenceResult, request_id: str | None, parameters: Mapping[str, object]) -> bytes:
    members, _ = protocol_members(answer, request_id)
    return messages.ModelInferResponse(
        model_name=members["model_name"],
        model_version=members["model_version"],
        id=members.get("id", ""),
        parameters=_parameters({**members.get("parameters", {}), **parameters}),
        outputs=[
            messages.ModelInferResponse.InferOutputTensor(
                name=tensor.name,
                datatype=tensor.datatype.value,
                shape=tensor.shape,
                parameters=_parameters({"complex": True} if tensor.name in answer.complex_outputs else {}),
            )
            for tensor in answer.outputs
        ],
    ).SerializeToString()


def _raw_contents(answer: InferenceResult) -> Iterator[bytes | bytearray | memoryview]:
    for tensor in answer.outputs:
        yield _RAW_OUTPUT_CONTENTS + _varint(len(tensor.data))
        yield tensor.data


def _parameters(members: Mapping[str, object]) -> dict[str, messages.InferParameter]:
    return {name: _parameter(value) for name, value in members.items()}


def _parameter(value: object) -> messages.InferParameter:
    if isinstance(value, bool):
        return messages.InferParameter(bool_param=value)
    if isinstance(value, int):
        return messages.InferParameter(int64_param=value)
    return messages.InferParameter(string_param=str(value))


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
