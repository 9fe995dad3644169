"""Arrays that numpy writes are read as they are, and whatever is no whole array of numbers is refused."""

import struct
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from tracehouse.errors import InvalidTensor, MalformedTensors
from tracehouse.tensors.npy import read_npy, write_npy
from tracehouse.tensors.tensor import Datatype, Tensor

VALUES: dict[Datatype, Any] = {
    Datatype.BOOL: [[True, False, True], [False, False, True]],
    Datatype.UINT8: [[0, 1, 255], [3, 4, 5]],
    Datatype.UINT16: [[0, 1, 65535], [3, 4, 5]],
    Datatype.UINT32: [[0, 1, 2**32 - 1], [3, 4, 5]],
    Datatype.UINT64: [[0, 1, 2**64 - 1], [3, 4, 5]],
    Datatype.INT8: [[-128, 1, 127], [3, 4, 5]],
    Datatype.INT16: [[-1, 1, 2], [3, 4, 5]],
    Datatype.INT32: [[-1, 1, 2], [3, 4, 5]],
    Datatype.INT64: [[-(2**63), 1, 2], [3, 4, 5]],
    Datatype.FP16: [[-0.0, 1.5, float("nan")], [3, 4, float("inf")]],
    Datatype.FP32: [[-0.0, 1.5, float("nan")], [3, 4, float("inf")]],
    Datatype.FP64: [[-0.0, 1.5, float("nan")], [3, 4, 1e300]],
}
DTYPES = {datatype: {"BOOL": "?"}.get(datatype, datatype.lower().replace("fp", "float")) for datatype in VALUES}


def npy(array: Any, *, allow_pickle: bool = False) -> bytes:
    file = BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def array_of(datatype: Datatype) -> np.ndarray:
    return np.array(VALUES[datatype], DTYPES[datatype])


def read(file: bytes) -> Tensor:
    return read_npy("x", memoryview(file))


def header(text: str, *, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode() + data


@pytest.mark.parametrize("datatype", VALUES)
@pytest.mark.parametrize("change", ["as it is", "columns", "big-endian", "both", "turned"])
def test_an_array_is_read_to_the_last_bit_however_it_is_stored(datatype: Datatype, change: str) -> None:
    wanted = array_of(datatype)
    stored = wanted
    if change in ("columns", "both"):
        stored = np.asfortranarray(stored)
    if change in ("big-endian", "both"):
        stored = stored.astype(stored.dtype.newbyteorder(">"))
    if change == "turned":
        stored = np.ascontiguousarray(wanted.T).T

    tensor = read(npy(stored))

    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", datatype, (2, 3))
    assert bytes(tensor.data) == wanted.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0), (2, 1, 3), (1,) * 32])
def test_any_shape_is_read_and_written(shape: tuple[int, ...]) -> None:
    wanted = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)

    tensor = read(npy(wanted))
    again = np.load(BytesIO(write_npy(tensor, is_complex=False)))

    assert tensor.shape == shape
    assert (again.shape, again.dtype, again.tobytes()) == (shape, wanted.dtype, wanted.tobytes())


@pytest.mark.parametrize("datatype", VALUES)
def test_numpy_reads_what_is_written(datatype: Datatype) -> None:
    wanted = array_of(datatype)

    found = np.load(BytesIO(write_npy(Tensor("x", datatype, (2, 3), wanted.tobytes()), is_complex=False)))

    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@pytest.mark.parametrize(("datatype", "dtype"), [(Datatype.FP32, np.complex64), (Datatype.FP64, np.complex128)])
def test_pairs_of_floats_are_written_as_complex_numbers(datatype: Datatype, dtype: type) -> None:
    wanted = np.array([[1 + 2j, -0.0 - 3j]], dtype)

    found = np.load(BytesIO(write_npy(Tensor("x", datatype, (1, 2, 2), wanted.tobytes()), is_complex=True)))

    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def test_a_whole_array_is_read_without_a_copy() -> None:
    file = memoryview(npy(np.zeros((4, 4), np.float32)))

    data = read_npy("x", file).data

    assert isinstance(data, memoryview)
    assert data.obj is file.obj


class Harmful:
    """Unpickled, it would fail the test."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("it was unpickled",)


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], object),
        np.array(["text"]),
        np.array([b"text"]),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]),
        np.array(["2026-01-01"], "M8[D]"),
        np.array([1j], np.complex64),
        np.array([1.0], np.longdouble),
        np.zeros(2, "V2"),
        np.array([Harmful()], object),
    ],
    ids=lambda array: str(array.dtype),
)
def test_what_has_no_numbers_of_a_tensor_is_refused_and_never_unpickled(array: np.ndarray) -> None:
    with pytest.raises(MalformedTensors) as refused:
        read(npy(array, allow_pickle=True))

    assert refused.value.facts["input"] == "x"
    assert refused.value.facts["remedy"]


PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01",
        b"\x80\x04\x95",  # a pickle
        b"PK\x03\x04" + bytes(40),
        npy(np.zeros(2, np.float32))[:60],
        header(PLAIN, version=b"\x03\x00"),
        header(PLAIN, version=b"\x00\x00"),
        header(" " * 5000),
        header(PLAIN)[:20],
        header("not a dict"),
        header("__import__('os').system('false')"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (3,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"),
        header("{'descr': '<f4', 'fortran_order': False}"),
        header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': 2}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,) * 3}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}" % ("1," * 33)),
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**60},)}}"),
        header("{'descr': '=f4', 'fortran_order': False, 'shape': (2,)}"),
        header("{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}"),
        header("{'descr': 'f4', 'fortran_order': False, 'shape': (2,)}"),
        header("{'descr': ['<f4'], 'fortran_order': False, 'shape': (2,)}"),
        header("{[]: 1}"),
        header("{**{}}"),
        header("(" * 2000),
        header("-" * 4000 + "1"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (%s,)}" % ("9" * 3900)),
        header("\u00e9"),
        header("{'descr': '<f4\0'}"),
    ],
)
def test_what_is_no_whole_file_is_refused(file: bytes) -> None:
    with pytest.raises(MalformedTensors):
        read(file)


@pytest.mark.parametrize("text", ["1if 1else " * 300 + "1", "1.if 1.else 1", "0x1for x in 1", "'\\d\\e\\g'"])
def test_python_warns_of_no_header(text: str, recwarn: pytest.WarningsRecorder) -> None:
    """Each warning would be a line that a client writes into a service's log."""
    with pytest.raises(MalformedTensors):
        read(header(text))

    assert [*recwarn] == []


@pytest.mark.parametrize("data", [b"", bytes(7), bytes(9), bytes(800)])
def test_bytes_that_the_header_does_not_announce_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTensor) as refused:
        read(header(PLAIN, data=data))

    assert (refused.value.facts["expected"], refused.value.facts["actual"]) == (8, len(data))


def test_a_shape_that_no_memory_holds_costs_none() -> None:
    with pytest.raises(InvalidTensor):
        read(header(f"{{'descr': '<f8', 'fortran_order': True, 'shape': ({'281474976710656,' * 32})}}", data=bytes(8)))


def test_any_true_byte_becomes_one() -> None:
    text = "{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2)}"

    assert bytes(read(header(text, data=bytes([0, 2, 255, 1]))).data) == bytes([0, 1, 1, 1])
