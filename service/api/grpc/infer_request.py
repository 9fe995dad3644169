"""A request for inference as it comes over gRPC: its tensors as raw bytes, or as typed contents.

Whoever reads a message bounds the work before: the fields of a message are counted before protobuf parses it, because
a few bytes can be a thousand objects, and raw bytes of tensors are never copied.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError
from pydantic import JsonValue

from service.api.grpc import open_inference_pb2 as messages
from service.api.json_members import invalid_at
from service.api.oip.request import Expect, ProtocolRequest
from service.domain.errors import MalformedMessage
from tracehouse.errors import InvalidTensor
from tracehouse.tensors.raw import DIMS_MAX
from tracehouse.tensors.tensor import BY_NAME, Datatype, array

# Of all fields in a message together, a packed one of which counts once. Chosen: some hundred tensors, which take some
# milliseconds.
FIELDS_MAX = 2**12

# Numbers of the fields of ModelInferRequest.
_NAME, _VERSION, _ID, _PARAMETERS, _INPUTS, _OUTPUTS, _RAW = 1, 2, 3, 4, 5, 6, 7
# The messages within a message, by the numbers of their fields. Values of parameters hold no others.
_MAP: "_Within" = {2: {}}
_WITHIN: "_Within" = {_PARAMETERS: _MAP, _INPUTS: {4: _MAP, 5: {}}, _OUTPUTS: {2: _MAP}}
_Within = Mapping[int, "_Within"]

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5  # wire types
_VARINT_MAX = 10  # bytes
_ID_MAX_BYTES = 4000  # as many as an id can have that is not refused
# The first fields of a refused request, among which its id is looked for: what writes messages puts it third at most.
# A client that may ask nothing more for now can have a thousand requests refused in a second.
_ID_WITHIN = 16
_NAME_MAX = 80  # characters of a name that a problem repeats

# Where each datatype's values stand in typed contents, and what holds all values that such a field may have.
_TYPED: dict[Datatype, tuple[str, type[np.generic]]] = {
    Datatype.BOOL: ("bool_contents", np.bool_),
    **dict.fromkeys((Datatype.INT8, Datatype.INT16, Datatype.INT32), ("int_contents", np.int32)),
    Datatype.INT64: ("int64_contents", np.int64),
    **dict.fromkeys((Datatype.UINT8, Datatype.UINT16, Datatype.UINT32), ("uint_contents", np.uint32)),
    Datatype.UINT64: ("uint64_contents", np.uint64),
    Datatype.FP32: ("fp32_contents", np.float32),
    Datatype.FP64: ("fp64_contents", np.float64),
}


@dataclass(frozen=True, slots=True)
class MessageParts:
    """A ModelInferRequest, taken apart: `head` is what protobuf parses, and `raw` the bytes of tensors behind it."""

    model: str
    version: str
    head: bytes
    raw: list[memoryview]


def split(message: bytes) -> MessageParts:
    """Take a message apart without a copy of its tensors, and count its fields. Raises MalformedMessage."""
    view = memoryview(message)
    names, raw, rest, start, left = {_NAME: b"", _VERSION: b""}, [], [], 0, FIELDS_MAX
    try:
        while start < len(view):
            number, content, end = _field(view, start)
            left = _count_one(number, content, _WITHIN, left)
            if number == _RAW and content is not None:
                raw.append(content)
            else:
                rest.append(view[start:end])
            if number in names and content is not None:
                names[number] = bytes(content)
            start = end
        head = b"".join(rest) if raw else message
        return MessageParts(names[_NAME].decode(), names[_VERSION].decode(), head, raw)
    except (ValueError, IndexError) as error:
        raise MalformedMessage("the message is no ModelInferRequest") from error


def parse(head: bytes, raw_sizes: Sequence[int], expect: Expect) -> tuple[ProtocolRequest, list[bytes]]:
    """Parse the head; return what is asked, and the bytes of the inputs if there are no raw ones.

    Raises MalformedMessage, InvalidTensor, and what `ProtocolRequest.read` raises.
    """
    try:
        message = messages.ModelInferRequest.FromString(head)
    except DecodeError as error:
        raise MalformedMessage("the message is no ModelInferRequest") from error
    if raw_sizes:
        _check_raw(message, len(raw_sizes))
    typed = [] if raw_sizes else [_typed(given) for given in message.inputs]
    body: dict[str, JsonValue] = {
        "parameters": _parameters(message.parameters),
        "inputs": [
            {
                "name": given.name,
                "datatype": given.datatype,
                # One too many is refused as the millions are for which a message has room.
                "shape": [*given.shape[: DIMS_MAX + 1]],
                "parameters": {**_parameters(given.parameters), "binary_data_size": byte_size},
            }
            for given, byte_size in zip(message.inputs, raw_sizes or map(len, typed), strict=True)
        ],
        "outputs": [{"name": one.name, "parameters": _parameters(one.parameters)} for one in message.outputs],
    }
    if message.id:
        body["id"] = message.id
    return ProtocolRequest.read(body, expect), typed


def find_id(message: bytes) -> str:
    """Return the id in the first fields of a request that is refused, which may be no ModelInferRequest, or nothing."""
    view, found, start = memoryview(message), b"", 0
    with suppress(ValueError, IndexError):
        for _ in range(_ID_WITHIN):
            number, content, start = _field(view, start)
            if number == _ID and content is not None and len(content) <= _ID_MAX_BYTES:
                found = bytes(content)
    return found.decode(errors="ignore")


def _check_raw(message: messages.ModelInferRequest, count: int) -> None:
    """Raise InvalidRequest unless the inputs have so many raw contents, and no others."""
    if count != len(message.inputs):
        raise invalid_at("/raw_input_contents", f"there are {len(message.inputs)} inputs, and {count} raw contents")
    for place, given in enumerate(message.inputs):
        if given.HasField("contents"):
            raise invalid_at(f"/inputs/{place}/contents", "beside raw_input_contents, no input has contents")


def _typed(given: messages.ModelInferRequest.InferInputTensor) -> bytes:
    """Return the values of an input as bytes. Raises InvalidTensor."""
    datatype = BY_NAME.get(given.datatype)
    sent = [field.name for field, _ in given.contents.ListFields()]
    if datatype is None or not sent:
        return b""  # what reads JSON finds that there is no such datatype, or too few bytes
    name = given.name[:_NAME_MAX]
    field, holding = _TYPED.get(datatype, ("", np.void))
    if sent != [field]:
        place = f"in `{field}`" if field else "in raw_input_contents, as no typed field has such values"
        raise InvalidTensor(
            f"input {name!r} is {datatype}, whose values stand {place}, and not in {', '.join(sent)}",
            input=name, datatype=datatype, actual=sent,
        )  # fmt: skip
    values = getattr(given.contents, field)
    wide = np.fromiter(values, holding, len(values))
    packed = wide.astype(array(datatype, b"").dtype)
    if datatype.is_integer and not np.array_equal(packed, wide):
        raise InvalidTensor(f"input {name!r} has a value that no {datatype} has", input=name, datatype=datatype)
    return packed.tobytes()


def _parameters(given: Mapping[str, messages.InferParameter]) -> dict[str, JsonValue]:
    return {name: _value(parameter) for name, parameter in given.items()}


def _value(parameter: messages.InferParameter) -> JsonValue:
    choice = parameter.WhichOneof("parameter_choice")
    value: JsonValue = None if choice is None else getattr(parameter, choice)
    return value


def _count_one(number: int, content: memoryview | None, within: _Within, left: int) -> int:
    """Return how many more fields there may be after this one, with those in it. Raises what `_field` raises."""
    left -= 1
    if left < 0:
        raise MalformedMessage(f"the message has more than {FIELDS_MAX} fields", limit=FIELDS_MAX)
    if content is None or number not in within:
        return left
    start = 0
    while start < len(content):
        inner, inner_content, start = _field(content, start)
        left = _count_one(inner, inner_content, within[number], left)
    return left


def _field(view: memoryview, start: int) -> tuple[int, memoryview | None, int]:
    """Return a field's number, its content if it has a length, and where it ends. Raises ValueError and IndexError."""
    key, start = _varint(view, start)
    number, kind = key >> 3, key & 7
    if kind == _LENGTH:
        size, start = _varint(view, start)
        if size > len(view) - start:
            raise ValueError("a field goes on beyond the message")
        return number, view[start : start + size], start + size
    if kind == _VARINT:
        return number, None, _varint(view, start)[1]
    if kind in (_FIXED_64, _FIXED_32):
        return number, None, start + (8 if kind == _FIXED_64 else 4)
    raise ValueError("no such wire type")


def _varint(view: memoryview, start: int) -> tuple[int, int]:
    """Return a number, and where it ends. Raises ValueError and IndexError."""
    value = 0
    for place in range(_VARINT_MAX):
        byte = view[start + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise ValueError("a number has too many bytes")
