"""A tensor in a `.npy` file of numpy. Nothing in it is unpickled.

Source: "NEP 1: A simple file format for NumPy arrays", and `numpy.lib.format`.
"""

import ast
import re
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from tracehouse.errors import MalformedTensors
from tracehouse.tensors.raw import read_raw, read_shape, row_major
from tracehouse.tensors.tensor import Datatype, Tensor, array

_MAGIC = b"\x93NUMPY"
# By the file's major version: how many bytes say how long the header is. numpy writes 3 for names of fields alone.
_LENGTH_BYTES = {1: 2, 2: 4}
# A header of 32 dims has some 600 bytes, and numpy pads it to a multiple of 64.
_HEADER_MAX_BYTES = 4096
_MEMBERS = {"descr", "fortran_order", "shape"}
# Python warns of these as it reads them, a line for each. No header of an array of numbers has any.
_WARNED_OF = re.compile(r"\\|[0-9.][A-Za-z_]")
_ORDERS = {"<": False, "|": False, ">": True}
_BY_CODE = {
    "b1": Datatype.BOOL, "u1": Datatype.UINT8, "u2": Datatype.UINT16, "u4": Datatype.UINT32, "u8": Datatype.UINT64,
    "i1": Datatype.INT8, "i2": Datatype.INT16, "i4": Datatype.INT32, "i8": Datatype.INT64,
    "f2": Datatype.FP16, "f4": Datatype.FP32, "f8": Datatype.FP64,
}  # fmt: skip
# Of complex numbers, which are pairs of these.
_COMPLEX = {Datatype.FP32: "<c8", Datatype.FP64: "<c16"}


class _Header(NamedTuple):
    datatype: Datatype
    stored: np.dtype
    is_fortran: bool
    shape: tuple[int, ...]


def read_npy(name: str, file: memoryview) -> Tensor:
    """Return the array of a whole file as the tensor of this name; it views the file, if that is row-major and
    little-endian. Raises MalformedTensors and InvalidTensor."""
    header, data = _split(name, file)
    tensor = read_raw(name, header.datatype, header.shape, data)
    is_columns = header.is_fortran and len(header.shape) > 1
    if not tensor.data or not (is_columns or header.stored.byteorder == ">"):
        return tensor
    values = row_major(memoryview(tensor.data), header.shape, header.stored, is_fortran=header.is_fortran)
    return Tensor(name, header.datatype, header.shape, values)


def can_be_npy(datatype: Datatype, *, is_complex: bool) -> bool:
    """Whether numpy has a dtype for such numbers."""
    return datatype in _COMPLEX if is_complex else datatype is not Datatype.BF16


def write_npy(tensor: Tensor, *, is_complex: bool) -> bytes:
    """Return the tensor as a file; numbers that are pairs of floats as complex ones. numpy must have a dtype for it."""
    assert can_be_npy(tensor.datatype, is_complex=is_complex)
    values = array(tensor.datatype, tensor.data)
    if is_complex:
        values = values.view(_COMPLEX[tensor.datatype])
    shape = tensor.shape[:-1] if is_complex else tensor.shape
    file = BytesIO()
    np.lib.format.write_array(file, values.reshape(shape), allow_pickle=False)
    return file.getvalue()


def _split(name: str, file: memoryview) -> tuple[_Header, memoryview]:
    """Return the header, and the bytes after it. Raises MalformedTensors."""
    if bytes(file[:6]) != _MAGIC:
        raise _malformed(name, "it does not begin as one does")
    count = _LENGTH_BYTES.get(file[6] if len(file) > 7 else 0)
    if count is None:
        raise _malformed(name, "it has another version than 1 and 2")
    start = 8 + count
    length = int.from_bytes(file[8:start], "little")
    if length > _HEADER_MAX_BYTES or len(file) < start + length:
        raise _malformed(name, f"its header is cut off, or longer than {_HEADER_MAX_BYTES} bytes")
    return _read_header(name, bytes(file[start : start + length])), file[start + length :]


def _read_header(name: str, text: bytes) -> _Header:
    members = _parse(name, text)
    shape = read_shape(members["shape"], name)
    if type(members["fortran_order"]) is not bool:
        raise _malformed(name, "`fortran_order` in its header is neither True nor False")
    descr = members["descr"]
    order, code = (descr[:1], descr[1:]) if isinstance(descr, str) else ("", "")
    if order not in _ORDERS or code not in _BY_CODE or (order == "|" and code[1:] != "1"):
        raise MalformedTensors(
            f"the array {name!r} has the dtype {str(descr)[:80]!r}, which is that of no tensor", input=name,
            remedy="Send an array of booleans, integers or floats: no objects, which would be a pickle, no text and no "
            "records. numpy has no BF16: send that as safetensors.",
        )  # fmt: skip
    return _Header(_BY_CODE[code], np.dtype(descr), members["fortran_order"], shape)


def _parse(name: str, text: bytes) -> dict[str, Any]:
    """Return the header's members: a dict as Python writes it, with each of the three once. Raises MalformedTensors."""
    try:
        header = text.decode("ascii").strip()
        if _WARNED_OF.search(header):
            raise ValueError("a backslash, or a number with letters after it")
        tree = ast.parse(header, mode="eval")
        members = ast.literal_eval(tree)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _malformed(name, "its header is no dict of Python") from error
    if not isinstance(tree.body, ast.Dict) or len(tree.body.keys) != len(_MEMBERS) or members.keys() != _MEMBERS:
        raise _malformed(name, f"its header has other members than {', '.join(sorted(_MEMBERS))}, each once")
    return members  # type: ignore[no-any-return]


def _malformed(name: str, reason: str) -> MalformedTensors:
    return MalformedTensors(
        f"{name!r} is not a whole .npy file: {reason}", input=name,
        remedy="Send what `numpy.save` writes, with `allow_pickle=False`.",
    )  # fmt: skip
