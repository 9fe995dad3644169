"""An output tensor as JSON, written piece by piece."""

from collections.abc import Iterator

import orjson
from pydantic import Field, JsonValue

from service.api.inference_openapi import NOT_FINITE
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, Tensor, unpack

_PIECE_BYTES = 128 * 1024  # whole items of every datatype


class OutputTensor(Frozen):
    """One output."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[JsonValue] = Field(description=f"Row-major, flat. {NOT_FINITE}")


def pieces(tensor: Tensor) -> Iterator[bytes]:
    """The tensor as JSON. Numbers are objects only for a moment, and other threads come in between."""
    members = {"name": tensor.name, "datatype": tensor.datatype.value, "shape": tensor.shape}
    yield orjson.dumps(members)[:-1] + b',"data":['
    data = memoryview(tensor.data)
    for start in range(0, len(data), _PIECE_BYTES):
        numbers = orjson.dumps(unpack(tensor.datatype, data[start : start + _PIECE_BYTES]))[1:-1]
        yield b"," + numbers if start else numbers
    yield b"]}"
