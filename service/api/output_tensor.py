"""An output tensor as JSON, written in pieces."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
from pydantic import Field, JsonValue

from service.api.inference_openapi import NOT_FINITE
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, Tensor, array, unpack

_PIECE_BYTES = 128 * 1024  # whole items of every datatype
# Outputs of different shapes that are remembered: each takes some hundred bytes, unless its name is long.
_OPENINGS_MAX = 1024


class OutputParameters(Frozen):
    """What the Open Inference Protocol has no member for."""

    complex: bool = Field(
        description="True: the model returns a complex tensor. The last dim, of size 2, has the real and the "
        "imaginary part."
    )


class OutputTensor(Frozen):
    """One output tensor."""

    name: str
    datatype: Datatype = Field(
        description="The datatype of the numbers. If the contract has a `datatype_of`, it is that with which the input "
        "of this name was sent."
    )
    shape: list[int]
    parameters: OutputParameters | None = Field(None, description="Present if the model returns a complex tensor.")
    data: list[JsonValue] = Field(description=f"Row-major, flat. {NOT_FINITE}")


def reply_pieces(
    members: Mapping[str, Any], outputs: Iterable[Tensor], complex_outputs: Collection[str]
) -> Generator[bytes, None, None]:
    """Yield a reply as JSON: its members, and the outputs after them."""
    yield orjson.dumps({**members, "outputs": []})[: -len("]}")]
    for place, tensor in enumerate(outputs):
        if place:
            yield b","
        yield from json_pieces(tensor, is_complex=tensor.name in complex_outputs)
    yield b"]}"


def json_pieces(tensor: Tensor, *, is_complex: bool = False) -> Iterator[bytes]:
    """Yield the tensor as JSON: few numbers are Python objects at a time, and other threads run in between."""
    opening = _opening(tensor.name, tensor.datatype, tensor.shape, is_complex)
    data = memoryview(tensor.data)
    if len(data) <= _PIECE_BYTES:
        yield b"%b%b]}" % (opening, _numbers(tensor.datatype, data))
        return
    yield opening
    for start in range(0, len(data), _PIECE_BYTES):
        numbers = _numbers(tensor.datatype, data[start : start + _PIECE_BYTES])
        yield b"," + numbers if start else numbers
    yield b"]}"


@lru_cache(_OPENINGS_MAX)
def _opening(name: str, datatype: Datatype, shape: tuple[int, ...], is_complex: bool) -> bytes:
    """Return what stands before the numbers."""
    members: dict[str, Any] = {"name": name, "datatype": datatype.value, "shape": shape}
    if is_complex:
        members["parameters"] = {"complex": True}
    return orjson.dumps(members)[:-1] + b',"data":['


def _numbers(datatype: Datatype, data: memoryview) -> bytes:
    """Return the values as JSON, separated by commas, as `unpack` has them."""
    text = orjson.dumps(array(datatype, data).tolist())
    if b"null" in text:  # what orjson makes of NaN and infinities
        text = orjson.dumps(unpack(datatype, data))
    return text[1:-1]
