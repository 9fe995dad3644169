"""An output tensor as JSON, written in pieces."""

from collections.abc import Iterator

import orjson
from pydantic import Field, JsonValue

from service.api.inference_openapi import NOT_FINITE
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, Tensor, unpack

_PIECE_BYTES = 128 * 1024  # whole items of every datatype


class OutputTensor(Frozen):
    """One output tensor."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[JsonValue] = Field(description=f"Row-major, flat. {NOT_FINITE}")


def json_pieces(tensor: Tensor) -> Iterator[bytes]:
    """Yield the tensor as JSON: few numbers are Python objects at a time, and other threads run in between."""
    members = {"name": tensor.name, "datatype": tensor.datatype.value, "shape": tensor.shape}
    yield orjson.dumps(members)[:-1] + b',"data":['
    data = memoryview(tensor.data)
    for start in range(0, len(data), _PIECE_BYTES):
        numbers = orjson.dumps(unpack(tensor.datatype, data[start : start + _PIECE_BYTES]))[1:-1]
        yield b"," + numbers if start else numbers
    yield b"]}"
