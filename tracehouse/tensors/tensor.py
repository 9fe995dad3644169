"""Tensors with the datatypes of the Open Inference Protocol, and the conversion between JSON data and bytes."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from math import isfinite, isnan, prod
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from tracehouse.errors import InvalidTensor
from tracehouse.frozen import Frozen
from tracehouse.tensors.numbers import Numbers

# At most 2**48 elements, as in `tracehouse.contract.dims.SIZE_MAX`, and at most 32 dims, as many as numpy 1 allows.
Dim = Annotated[int, Field(ge=0, le=2**48)]
Shape = Annotated[tuple[Dim, ...], Field(max_length=32)]


class Datatype(StrEnum):
    """The protocol's datatypes that torch has a dtype for (BYTES has none)."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"

    @property
    def item_bytes(self) -> int:
        """The number of bytes of one value."""
        return _NUMPY[self].itemsize

    @property
    def dtype_name(self) -> str:
        """The name of the dtype in torch, and in NumPy, which has no bfloat16."""
        return _FLOAT_NAMES.get(self, self.value.lower())

    @property
    def is_float(self) -> bool:
        return self in _FLOAT_NAMES

    @property
    def is_integer(self) -> bool:
        return not self.is_float and self is not Datatype.BOOL


# By the names that the protocol has for them.
BY_NAME = {datatype.value: datatype for datatype in Datatype}

_FLOAT_NAMES = {
    Datatype.FP16: "float16",
    Datatype.BF16: "bfloat16",
    Datatype.FP32: "float32",
    Datatype.FP64: "float64",
}

# Little-endian, as on the wire. numpy has no bfloat16: uint16 holds its bytes.
_NUMPY = {
    Datatype.BOOL: np.dtype("?"),
    Datatype.UINT8: np.dtype("u1"),
    Datatype.UINT16: np.dtype("<u2"),
    Datatype.UINT32: np.dtype("<u4"),
    Datatype.UINT64: np.dtype("<u8"),
    Datatype.INT8: np.dtype("i1"),
    Datatype.INT16: np.dtype("<i2"),
    Datatype.INT32: np.dtype("<i4"),
    Datatype.INT64: np.dtype("<i8"),
    Datatype.FP16: np.dtype("<f2"),
    Datatype.BF16: np.dtype("<u2"),
    Datatype.FP32: np.dtype("<f4"),
    Datatype.FP64: np.dtype("<f8"),
}

_STRUCT_CODES = {Datatype.FP32: "f", Datatype.FP64: "d"}
_FEW_VALUES = 1024

# JSON has no such numbers. These are their names in protobuf's JSON mapping.
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class TensorSpec(Frozen):
    """A tensor without its values: name, datatype and shape."""

    name: str
    datatype: Datatype
    shape: Shape

    @property
    def byte_size(self) -> int:
        """The number of bytes of all values."""
        return prod(self.shape) * self.datatype.item_bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as it travels between processes: `data` are its values as row-major little-endian bytes."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview

    @property
    def spec(self) -> TensorSpec:
        """The tensor's name, datatype and shape."""
        return TensorSpec(name=self.name, datatype=self.datatype, shape=self.shape)


def split(specs: Iterable[TensorSpec], body: bytes | bytearray | memoryview) -> list[Tensor]:
    """Return the tensors whose bytes stand in the body one after the other; their data are views into it.

    The specs' byte sizes must add up to the body's.
    """
    tensors, start = [], 0
    for spec in specs:
        end = start + spec.byte_size
        tensors.append(Tensor(spec.name, spec.datatype, spec.shape, memoryview(body)[start:end]))
        start = end
    return tensors


def pack(datatype: Datatype, shape: Sequence[int], data: JsonValue | Numbers) -> bytes:
    """Return JSON data, flat or nested, as row-major little-endian bytes.

    Raises InvalidTensor if the count, the nesting, or a value's type or range does not fit datatype and shape.
    """
    if isinstance(data, Numbers):
        return _pack_numbers(datatype, tuple(shape), data)
    flat, kinds = _flatten(data, tuple(shape))
    if datatype is Datatype.BOOL:
        return _pack_flat(flat, kinds, {bool}, datatype)
    if datatype.is_integer:
        return _pack_flat(flat, kinds, {int}, datatype)
    if str in kinds and kinds <= {int, float, str}:
        flat = [*map(_NOT_FINITE.get, flat, flat)]
        kinds = set(map(type, flat))
    return _pack_flat(flat, kinds, {int, float}, datatype)


def _pack_numbers(datatype: Datatype, shape: tuple[int, ...], numbers: Numbers) -> bytes:
    """Pack as the list of them would be packed."""
    flat = numbers.flat
    is_flat = len(numbers.shape) == 1 and len(flat) == prod(shape)
    if not is_flat and numbers.shape != shape:
        raise _wrong_nesting(shape)
    if datatype.is_float:
        doubles = flat.astype(np.float64, copy=False)  # as each whole number becomes one before it is rounded
        return _pack_bfloat16(doubles) if datatype is Datatype.BF16 else _round(doubles, datatype)
    if datatype is Datatype.BOOL or not numbers.are_whole:
        raise InvalidTensor(f"{datatype} data cannot hold such numbers", datatype=datatype.value)
    dtype = _NUMPY[datatype]
    bits = 8 * dtype.itemsize
    lowest, past = (0, 1 << bits) if dtype.kind == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))
    if int(flat.min()) < lowest or int(flat.max()) >= past:
        raise _out_of_range(datatype)
    return flat.astype(dtype).tobytes()


def unpack(datatype: Datatype, data: bytes | bytearray | memoryview) -> list[Any]:
    """Return row-major bytes as a flat JSON list. NaN and infinities become "NaN", "Infinity" and "-Infinity"."""
    flat = array(datatype, data)
    values: list[Any] = flat.tolist()
    if datatype.is_float and not np.isfinite(flat).all():
        return [json_number(value) for value in values]
    return values


def array(datatype: Datatype, data: bytes | bytearray | memoryview) -> NDArray[Any]:
    """Return row-major bytes as a 1-d array. It is a view, unless numpy lacks the dtype: bfloat16 becomes float32."""
    flat = np.frombuffer(data, _NUMPY[datatype])
    if datatype is Datatype.BF16:
        return (flat.astype(np.uint32) << 16).view(np.float32)
    # Any byte other than 0 is true.
    return flat.view(np.uint8) != 0 if datatype is Datatype.BOOL else flat


def array_bytes(datatype: Datatype, flat: NDArray[Any]) -> bytes:
    """Return the row-major bytes of a 1-d array. This is the inverse of `array`."""
    if datatype is Datatype.BF16:
        return _round_to_bfloat16(np.ascontiguousarray(flat, np.float32).view(np.uint32)).tobytes()
    return flat.astype(_NUMPY[datatype], copy=False).tobytes()


def cast(tensor: Tensor, datatype: Datatype) -> Tensor:
    """Return the tensor with another datatype; a number that is too large for it becomes an infinity, as in torch."""
    if datatype is tensor.datatype:
        return tensor
    with np.errstate(over="ignore", invalid="ignore"):
        data = array_bytes(datatype, array(tensor.datatype, tensor.data))
    return Tensor(tensor.name, datatype, tensor.shape, data)


def json_number(value: float) -> float | str:
    """Return a number in a form that JSON has: NaN and infinities as strings."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def infer_shape(data: JsonValue | Numbers) -> tuple[int, ...]:
    """Return the shape of nested lists, read from the first item of each level. `pack` finds ragged lists."""
    if isinstance(data, Numbers):
        return data.shape
    shape = []
    while isinstance(data, list):
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return tuple(shape)


def _flatten(data: JsonValue, shape: tuple[int, ...]) -> tuple[list[Any], set[type]]:
    """Return data as a flat list of prod(shape) values, and their types.

    It must be flat, or nested exactly as `shape`.
    """
    values: list[Any] = data if isinstance(data, list) else [data]
    nested = any(type(value) is list for value in values[:1])
    if not nested:
        if len(values) != prod(shape) or (isinstance(data, list) and not shape and len(values) != 1):
            raise InvalidTensor(
                f"shape {list(shape)} needs {prod(shape)} values, not {len(values)}",
                expected=prod(shape),
                actual=len(values),
            )
        return values, set(map(type, values))
    if len(values) != (shape[0] if shape else 1):
        raise _wrong_nesting(shape)
    for size in shape[1:]:
        if not set(map(type, values)) <= {list} or not set(map(len, values)) <= {size}:
            raise _wrong_nesting(shape)
        values = list(chain.from_iterable(values))
    kinds = set(map(type, values))
    if list in kinds:
        raise _wrong_nesting(shape)
    return values, kinds


def _wrong_nesting(shape: tuple[int, ...]) -> InvalidTensor:
    return InvalidTensor(f"the data is not nested as shape {list(shape)}", expected=list(shape))


def _pack_flat(flat: list[Any], kinds: set[type], allowed: set[type], datatype: Datatype) -> bytes:
    if not kinds <= allowed:
        types = [*map(type, flat)]
        wrong = _shorten_repr(flat[min(types.index(kind) for kind in kinds - allowed)])
        raise InvalidTensor(f"{datatype} data cannot hold {wrong}", datatype=datatype.value, actual=wrong)
    if datatype is Datatype.BF16:
        return _pack_bfloat16(flat)
    if datatype in _STRUCT_CODES and len(flat) <= _FEW_VALUES:
        return _pack_few(flat, datatype)
    return _round(flat, datatype)


def _round(flat: list[Any] | NDArray[np.float64], datatype: Datatype) -> bytes:
    try:
        # A float beyond float16's or float32's range would become infinity with no more than a warning.
        with np.errstate(over="raise"):
            return np.array(flat, _NUMPY[datatype]).tobytes()
    except (OverflowError, FloatingPointError) as error:
        raise _out_of_range(datatype) from error


def _pack_few(flat: list[Any], datatype: Datatype) -> bytes:
    """Pack floats as numpy would, which takes longer to set out than a few of them take."""
    try:
        return struct.pack(f"<{len(flat)}{_STRUCT_CODES[datatype]}", *flat)
    except (OverflowError, struct.error) as error:
        raise _out_of_range(datatype) from error


def _pack_bfloat16(flat: list[Any] | NDArray[np.float64]) -> bytes:
    """Round float32 to its upper 16 bits. A number beyond bfloat16's range is refused, as one beyond float16's is."""
    single = np.frombuffer(_round(flat, Datatype.FP32), np.uint32)
    rounded = _round_to_bfloat16(single)
    if (np.isfinite(single.view(np.float32)) & (rounded & 0x7FFF == 0x7F80)).any():
        raise _out_of_range(Datatype.BF16)
    return rounded.tobytes()


def _round_to_bfloat16(single: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """Round to nearest, ties to even, as torch does (c10::BFloat16)."""
    rounded = (single + 0x7FFF + ((single >> 16) & 1)) >> 16
    # Rounding must not carry a NaN's payload into the sign or the exponent.
    rounded = np.where(np.isnan(single.view(np.float32)), 0x7FC0, rounded)
    return rounded.astype("<u2")


def _out_of_range(datatype: Datatype) -> InvalidTensor:
    return InvalidTensor(f"a value is out of {datatype}'s range", datatype=datatype.value)


def _shorten_repr(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."
