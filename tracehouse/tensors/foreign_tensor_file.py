"""A foreign tensor file: one in the safetensors format of which nothing is trusted.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from typing import Any, NamedTuple

import orjson

from tracehouse.errors import MalformedTensors
from tracehouse.tensors.json_text import find_repeated_member, levels
from tracehouse.tensors.raw import check_name, read_raw, read_shape
from tracehouse.tensors.tensor import Datatype, Tensor
from tracehouse.tensors.tensor_file import DATATYPES

# Chosen: no method has as many inputs, and a header of a thousand tensors has half as many bytes.
TENSORS_MAX = 2000
HEADER_MAX_BYTES = 256 * 1024
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_MEMBERS = {"dtype", "shape", "data_offsets"}


class TensorPlace(NamedTuple):
    """A tensor of the header, and where its bytes begin and end, counted from the end of the header."""

    start: int
    end: int
    name: str
    datatype: Datatype
    shape: tuple[int, ...]


def read_tensor_file(file: memoryview) -> list[Tensor]:
    """Return the tensors of a whole file, which view it. Raises MalformedTensors and InvalidTensor."""
    length = int.from_bytes(file[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + length
    if len(file) < _LENGTH_BYTES or length > HEADER_MAX_BYTES or len(file) < begin:
        raise _malformed(f"its header is cut off, or longer than {HEADER_MAX_BYTES} bytes")
    data = file[begin:]
    places = read_places(bytes(file[_LENGTH_BYTES:begin]), tensors_max=TENSORS_MAX)
    end = places[-1].end if places else 0
    if end != len(data):
        raise _malformed(f"its tensors have {end} bytes, and {len(data)} follow the header")
    return [read_raw(one.name, one.datatype, one.shape, data[one.start : one.end]) for one in places]


def read_places(text: bytes, *, tensors_max: int | None = None) -> list[TensorPlace]:
    """Return the tensors of a header in the order of their bytes, between which there are none.

    Whether so many bytes follow the header, and are as many as the shapes need, is left to the caller.
    Raises MalformedTensors.
    """
    places = sorted(_read_header(text, tensors_max))
    end = 0
    for place in places:
        if place.start != end or place.end < place.start:
            raise _malformed(f"the bytes of {place.name!r} do not begin where those of the tensor before it end")
        end = place.end
    return places


def _read_header(text: bytes, tensors_max: int | None) -> list[TensorPlace]:
    """Raises MalformedTensors."""
    try:
        header = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _malformed("its header is no JSON") from error
    if not isinstance(header, dict):
        raise _malformed("its header is no object")
    if tensors_max is not None and len(header) > tensors_max:
        raise _malformed(f"it has more than {tensors_max} tensors")
    if find_repeated_member(text, sum(len(one) for objects, _ in levels(header) for one in objects)):
        raise _malformed("a member stands twice in its header")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _malformed(f"{_METADATA} in its header is no object of texts")
    return [_read_place(name, members) for name, members in header.items()]


def _read_place(name: str, members: Any) -> TensorPlace:
    check_name(name)
    if not isinstance(members, dict) or members.keys() != _MEMBERS:
        raise _malformed(f"{name!r} in its header has other members than {', '.join(sorted(_MEMBERS))}")
    dtype, offsets = members["dtype"], members["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DATATYPES:
        raise MalformedTensors(
            f"the tensor {name!r} has the dtype {str(dtype)[:80]!r}, which this service does not have",
            input=name, remedy=f"Send one of {', '.join(DATATYPES)}.",
        )  # fmt: skip
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(one) is int and one >= 0 for one in offsets):
        raise _malformed(f"`data_offsets` of {name!r} are not two numbers of bytes")
    return TensorPlace(offsets[0], offsets[1], name, DATATYPES[dtype], read_shape(members["shape"], name))


def _malformed(reason: str) -> MalformedTensors:
    return MalformedTensors(
        f"the body is not a whole safetensors file: {reason}", remedy="Send what `safetensors.torch.save` returns."
    )
