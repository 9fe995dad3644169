"""Files that safetensors writes are read, and what it would refuse is refused."""

import json
from typing import Any

import pytest
import safetensors.torch
import torch

from tracehouse.errors import InvalidTensor, MalformedTensors
from tracehouse.tensors.foreign_tensor_file import HEADER_MAX_BYTES, TENSORS_MAX, read_tensor_file
from tracehouse.tensors.tensor import Datatype, Tensor
from tracehouse.torch_values.tensors import DTYPES


def read(file: bytes) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in read_tensor_file(memoryview(file))}


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def place(start: Any, end: Any, dtype: Any = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_every_datatype_is_read_to_the_last_bit() -> None:
    tensors = {f"pair.{datatype}": torch.arange(6).reshape(2, 3).to(dtype) for datatype, dtype in DTYPES.items()} | {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(1.5),
    }

    found = read(safetensors.torch.save(tensors, {"made": "by a test"}))

    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].shape == tuple(tensor.shape)
        assert DTYPES[found[name].datatype] is tensor.dtype
        assert bytes(found[name].data) == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def test_a_file_is_read_without_a_copy() -> None:
    file = memoryview(safetensors.torch.save({"x": torch.ones(4)}))

    data = read_tensor_file(file)[0].data

    assert isinstance(data, memoryview)
    assert data.obj is file.obj


def test_tensors_may_stand_in_any_order() -> None:
    found = read(file_of({"b": place(4, 8), "a": place(0, 4)}, b"aaaabbbb"))

    assert {name: bytes(one.data) for name, one in found.items()} == {"a": b"aaaa", "b": b"bbbb"}


def test_any_true_byte_becomes_one() -> None:
    assert bytes(read(file_of({"x": place(0, 3, "BOOL", [3])}, bytes([0, 7, 1])))["x"].data) == bytes([0, 1, 1])


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\0" * 7,
        bytes(8),
        (2**63).to_bytes(8, "little") + b"{}",
        (100).to_bytes(8, "little") + b"{}",
        file_of(b" " * (HEADER_MAX_BYTES + 1)),
        file_of(b"not json"),
        file_of(b"[]"),
        file_of(b"[" * 100_000),
        file_of({str(number): {} for number in range(TENSORS_MAX + 1)}),
        file_of(b'{"x": NaN}'),
        file_of(b'{"\xff": 1}'),
        file_of({"x": []}),
        file_of({"x": {}}),
        file_of({"x": place(0, 4) | {"more": 1}}, bytes(4)),
        file_of({"__metadata__": {"a": 1}}),
        file_of({"__metadata__": []}),
        file_of(b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":'
                b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        file_of(b'{"x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
        file_of({"x": place(0, 4), "y": place(0, 4)}, bytes(4)),  # they overlap
        file_of({"x": place(0, 8, shape=[2]), "y": place(4, 12, shape=[2])}, bytes(12)),
        file_of({"x": place(0, 4), "y": place(8, 12)}, bytes(12)),  # a hole
        file_of({"x": place(4, 8)}, bytes(8)),
        file_of({"x": place(0, 4)}, bytes(8)),
        file_of({"x": place(0, 4)}, bytes(3)),
        file_of({"x": place(4, 0)}, bytes(4)),
        file_of({"x": place(-4, 0)}, bytes(4)),
        file_of({"x": place(0, 4.0)}, bytes(4)),
        file_of({"x": place(False, 4)}, bytes(4)),
        file_of({"x": place(0, 2**64)}, bytes(4)),
        file_of({"x": place(0, 4) | {"data_offsets": [0, 4, 8]}}, bytes(4)),
        file_of({"x": place(0, 4, "F8_E4M3", [4])}, bytes(4)),
        file_of({"x": place(0, 4, "f32")}, bytes(4)),
        file_of({"x": place(0, 4, ["F32"])}, bytes(4)),
        file_of({"x": place(0, 4, shape=[-1])}, bytes(4)),
        file_of({"x": place(0, 4, shape=[True])}, bytes(4)),
        file_of({"x": place(0, 4, shape=1)}, bytes(4)),
        file_of({"x": place(0, 4, shape=[1] * 33)}, bytes(4)),
        file_of({"n" * 2000: place(0, 4)}, bytes(4)),
    ],
)  # fmt: skip
def test_what_is_no_whole_file_is_refused(file: bytes) -> None:
    with pytest.raises(MalformedTensors) as refused:
        read(file)

    assert len(refused.value.detail) < 2000


@pytest.mark.parametrize("shape", [[], [2], [1, 2], [2**48] * 32])
def test_a_shape_that_its_bytes_do_not_have_is_refused(shape: list[int]) -> None:
    with pytest.raises(InvalidTensor) as refused:
        read(file_of({"x": place(0, 12, shape=shape)}, bytes(12)))

    assert refused.value.facts["input"] == "x"


def test_datatypes_are_named_as_the_format_names_them() -> None:
    assert read(file_of({"x": place(0, 2, "BF16")}, bytes(2)))["x"].datatype is Datatype.BF16
