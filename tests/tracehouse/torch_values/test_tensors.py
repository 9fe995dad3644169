"""Tensors as bytes and back."""

import pytest
import torch

from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import DTYPES, datatype_of, from_bytes, spec_of, to_bytes


@pytest.mark.parametrize("datatype", Datatype)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (0, 3)])
def test_a_tensor_comes_back_from_its_bytes(datatype: Datatype, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape).to(DTYPES[datatype])
    data = bytes(to_bytes(tensor))
    back = from_bytes(datatype, shape, data)

    assert len(data) == tensor.nbytes
    assert torch.equal(back, tensor)
    assert back.dtype is tensor.dtype


def test_bytes_are_row_major_and_little_endian() -> None:
    tensor = torch.tensor([[1, 2], [3, 4]], dtype=torch.int16).T

    assert bytes(to_bytes(tensor)) == b"\x01\0\x03\0\x02\0\x04\0"


def test_a_tensor_has_memory_of_its_own() -> None:
    data = bytearray(b"\x01\x02")
    tensor = from_bytes(Datatype.UINT8, [2], data)
    data[0] = 9

    assert tensor.tolist() == [1, 2]


@pytest.mark.parametrize("data", [b"", b"\x01", b"12345"])
def test_bytes_of_another_size_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTensor):
        from_bytes(Datatype.FP32, [], data)


def test_what_has_no_datatype_has_no_spec() -> None:
    assert datatype_of(torch.ones(1, dtype=torch.complex64)) is None
    assert spec_of("x", torch.ones(2, 2).to_sparse()) is None


def test_a_single_element_of_any_stride_has_its_bytes() -> None:
    column = torch.arange(15.0).reshape(3, 5)[:1, 2]
    assert column.stride() == (5,)
    assert bytes(to_bytes(column)) == bytes(to_bytes(torch.tensor([2.0])))
