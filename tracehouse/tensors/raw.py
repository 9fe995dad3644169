"""Raw tensors: foreign bytes as the values of a tensor, whatever file they come in."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tracehouse.errors import InvalidTensor, MalformedTensors
from tracehouse.tensors.tensor import Datatype, Tensor

# As in `tracehouse.tensors.tensor.Shape`.
DIM_MAX = 2**48
DIMS_MAX = 32
# In characters: errors repeat names. As in `tracehouse.spec.example_inputs.TENSOR_KEY_MAX`.
NAME_MAX = 1000


def read_raw(name: str, datatype: Datatype, shape: tuple[int, ...], data: memoryview) -> Tensor:
    """Return row-major little-endian bytes as a tensor that views them. Raises InvalidTensor if they are too many or
    too few."""
    needed = prod(shape) * datatype.item_bytes
    if len(data) != needed:
        raise InvalidTensor(
            f"tensor {name!r} of {datatype} {list(shape)} has {needed} bytes, and {len(data)} are there",
            input=name, expected=needed, actual=len(data),
            remedy="Send all values, each with the bytes of the datatype, and nothing after them.",
        )  # fmt: skip
    return Tensor(name, datatype, shape, as_booleans(data) if datatype is Datatype.BOOL else data)


def as_booleans(data: memoryview) -> bytes:
    """Return bytes of which each is 0 or 1: any other than 0 is true."""
    truths: np.ndarray = np.frombuffer(data, np.uint8) != 0
    return truths.tobytes()


def check_name(name: str) -> None:
    """Raise MalformedTensors for a name that is too long."""
    if len(name) > NAME_MAX:
        raise MalformedTensors(f"the name of a tensor is longer than {NAME_MAX} characters", limit=NAME_MAX)


def read_shape(dims: Any, name: str) -> tuple[int, ...]:
    """Return what a file says is a shape. Raises MalformedTensors."""
    is_list = isinstance(dims, list | tuple) and len(dims) <= DIMS_MAX
    if is_list and all(type(dim) is int and 0 <= dim <= DIM_MAX for dim in dims):
        return tuple(dims)
    raise MalformedTensors(
        f"tensor {name!r} has no shape: a shape is at most {DIMS_MAX} sizes from 0 to {DIM_MAX}", input=name
    )


def row_major(data: memoryview, shape: Sequence[int], stored: np.dtype, *, is_fortran: bool) -> bytes:
    """Return values that are stored column by column, or in the other byte order, as row-major little-endian bytes.

    There must be as many as the shape has.
    """
    values = np.frombuffer(data, stored).reshape(shape, order="F" if is_fortran else "C")
    return np.ascontiguousarray(values, stored.newbyteorder("<")).tobytes()
