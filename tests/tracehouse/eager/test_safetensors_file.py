"""Safetensors files are read as safetensors reads them, with one copy of their tensors, and odd ones by safetensors."""

import io
import json
from typing import Any

import pytest
import safetensors.torch
import torch

from tracehouse.eager import safetensors_file

TENSORS = {
    "float": torch.tensor([[1.5, -2.0], [float("nan"), float("inf")]]),
    "double": torch.tensor([1e300], dtype=torch.float64),
    "half": torch.tensor([0.5, 2.0, 3.0], dtype=torch.float16),
    "short float": torch.tensor([[0.5], [-1.0]], dtype=torch.bfloat16),
    "whole": torch.tensor(-(2**60)),
    "small": torch.tensor([-7, 7], dtype=torch.int8),
    "byte": torch.tensor([255], dtype=torch.uint8),
    "middle": torch.tensor([-300], dtype=torch.int16),
    "int": torch.tensor([[[70000]]], dtype=torch.int32),
    "truth": torch.tensor([True, False, True]),
    "nothing": torch.empty(0, 3),
    "ä.name": torch.ones(3),
}
W = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def write(header: Any, data: bytes = bytes(4)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _fail_to_load(*_: object) -> None:
    pytest.fail("safetensors copies all tensors")


@pytest.mark.parametrize("about", [None, {"format": "pt"}])
def test_a_file_is_read_as_safetensors_reads_it(about: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    data = safetensors.torch.save(TENSORS, about)
    expected = safetensors.torch.load(data)
    monkeypatch.setattr(safetensors.torch, "load", _fail_to_load)

    read = safetensors_file.load(io.BytesIO(data))

    assert {*read} == {*expected} == {*TENSORS}
    for name, tensor in expected.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        assert read[name].is_contiguous()
        assert torch.equal(read[name].reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))


def test_each_tensor_can_be_written_to_alone() -> None:
    data = safetensors.torch.save({"a": torch.zeros(2), "b": torch.zeros(2)})

    read = safetensors_file.load(io.BytesIO(data))
    read["a"].fill_(1.0)

    assert (read["a"].tolist(), read["b"].tolist()) == ([1.0, 1.0], [0.0, 0.0])
    assert safetensors_file.load(io.BytesIO(data))["a"].tolist() == [0.0, 0.0]


ODD = {
    "empty": b"",
    "no header": (1 << 40).to_bytes(8, "little"),
    "no text": write(b"\xff{}"),
    "blanks before its header": write(b" " + json.dumps({"w": W}).encode()),
    "a list": write([]),
    "cut": write({"w": W})[:-1],
    "bytes behind it": write({"w": W}, bytes(5)),
    "bytes between its tensors": write({"w": W, "v": {**W, "data_offsets": [8, 12]}}, bytes(12)),
    "bytes before its tensors": write({"w": {**W, "data_offsets": [4, 8]}}, bytes(8)),
    "bytes of two tensors": write({"w": W, "v": W}),
    "one name twice": write(b'{"w":' + json.dumps(W).encode() + b',"w":' + json.dumps(W).encode() + b"}"),
    "one shape twice": write(b'{"w":{"dtype":"F32","shape":[2],"shape":[1],"data_offsets":[0,4]}}'),
    "too many bytes": write({"w": {**W, "data_offsets": [0, 8]}}, bytes(8)),
    "too few bytes": write({"w": {**W, "shape": [2]}}),
    "three places": write({"w": {**W, "data_offsets": [0, 4, 4]}}),
    "backwards": write({"w": {**W, "data_offsets": [4, 0]}}),
    "a negative size": write({"w": {**W, "shape": [-1, -1]}}),
    "a size that is no number": write({"w": {**W, "shape": [True]}}),
    "a size with a fraction": write({"w": {**W, "shape": [1.0]}}),
    "a size without end": write({"w": {**W, "shape": [0, 10**30], "data_offsets": [0, 0]}}, b""),
    "another dtype": write({"w": {**W, "dtype": "F8_E4M3", "shape": [4]}}),
    "no dtype": write({"w": {**W, "dtype": "X"}}),
    "one more field": write({"w": {**W, "more": 1}}),
    "one field less": write({"w": {"dtype": "F32", "shape": [1]}}),
    "numbers for texts": write({"w": W, "__metadata__": {"a": 1}}),
    "a text for texts": write({"w": W, "__metadata__": "a"}),
    "half a character": write(b'{"\\ud800":' + json.dumps(W).encode() + b"}"),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_file_is_left_to_safetensors(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = list[bytes]()
    monkeypatch.setattr(safetensors.torch, "load", left.append)

    safetensors_file.load(io.BytesIO(ODD[what]))

    assert left == [ODD[what]]


def test_a_file_that_is_no_longer_whole_when_it_is_read_is_left_to_safetensors() -> None:
    class Shrinking(io.BytesIO):
        def readinto(self, _: Any) -> int:
            self.truncate(20)
            return 0

    with pytest.raises(Exception, match=r"(?i)header"):
        safetensors_file.load(Shrinking(write({"w": W})))
