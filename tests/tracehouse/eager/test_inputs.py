"""Inputs: made of what the request says, from inline data, random numbers and uploaded files."""

import io
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import pytest
import safetensors.torch
import torch
from pydantic import TypeAdapter

from tracehouse.eager.inputs import InputFiles, materialise
from tracehouse.errors import InputsUnreadable
from tracehouse.spec.example_inputs import InputTree


def made(tree: Any, files: Mapping[str, bytes] | None = None) -> Any:
    def opened(name: str) -> BinaryIO:
        return io.BytesIO((files or {})[name])

    return materialise(TypeAdapter(InputTree).validate_python(tree), InputFiles(opened))


def random(datatype: str, *shape: int, **values: Any) -> torch.Tensor:
    tensor = made({"datatype": datatype, "shape": shape, "random": {"seed": 3, **values}})
    assert isinstance(tensor, torch.Tensor)
    return tensor


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def test_a_tree_keeps_its_lists_tuples_dicts_and_constants() -> None:
    one = {"datatype": "INT8", "shape": [], "data": 1}
    tree = made([{"tuple": [one, 2]}, {"a": [one], "b": None}, True, "text", 0.5])

    assert tree == [(torch.tensor(1), 2), {"a": [torch.tensor(1)], "b": None}, True, "text", 0.5]


def test_the_same_seed_draws_the_same() -> None:
    assert torch.equal(random("FP32", 100), random("FP32", 100))
    assert not torch.equal(random("FP32", 100), random("FP32", 100, seed=4))


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_floats_are_standard_normal_or_uniform(datatype: str) -> None:
    normal, uniform = random(datatype, 1000), random(datatype, 1000, low=2, high=3)

    assert abs(float(normal.double().std()) - 1) < 0.1
    assert 2 <= float(uniform.double().min()) < 2.1 < 2.9 < float(uniform.double().max()) <= 3


@pytest.mark.parametrize("datatype", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"])
def test_integers_are_drawn_below_high(datatype: str) -> None:
    assert set(random(datatype, 1000).tolist()) == {0, 1}
    assert set(random(datatype, 1000, low=5, high=8).tolist()) == {5, 6, 7}


def test_booleans_are_fair() -> None:
    assert 400 < int(random("BOOL", 1000).sum()) < 600


def test_a_range_that_the_datatype_cannot_hold_is_refused() -> None:
    with pytest.raises(InputsUnreadable):
        random("INT8", 2, low=0, high=1000)


FILES = {
    "x.safetensors": safetensors.torch.save({"x": torch.arange(3), "y": torch.ones(2)}),
    "x.npz": npz(x=np.arange(3), big=np.arange(3, dtype=">i4")),
    "one.npz": npz(only=np.arange(3)),
    "x.pt": saved({"x": torch.arange(3)}),
    "list.pt": saved([torch.zeros(1), torch.arange(3)]),
    "bare.pt": saved(torch.arange(3)),
}


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("x.safetensors", "x"),
        ("x.npz", "x"),
        ("x.npz", "big"),
        ("one.npz", None),
        ("x.pt", "x"),
        ("x.pt", None),
        ("list.pt", "1"),
        ("bare.pt", None),
    ],
)
def test_a_tensor_comes_from_a_file(file: str, key: str | None) -> None:
    assert made({"file": file, "key": key}, FILES).tolist() == [0, 1, 2]


def test_two_inputs_from_one_file_share_nothing() -> None:
    first, second = made([{"file": "x.pt", "key": "x"}, {"file": "x.pt", "key": "x"}], FILES)
    first.zero_()

    assert second.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "name", "key"),
    [
        (FILES["x.npz"], "x.npz", "z"),
        (FILES["x.npz"], "x.npz", None),
        (b"nothing", "x.npz", "x"),
        (b"nothing", "x.safetensors", "x"),
        (b"nothing", "x.pt", "x"),
        (npz(x=np.array([{}], dtype=object)), "x.npz", "x"),
        (npz(x=np.array(["text"])), "x.npz", "x"),
        (saved({"x": 3}), "x.pt", "x"),
        (saved({"x": torch.ones(1, dtype=torch.complex64)}), "x.pt", "x"),
    ],
)
def test_what_cannot_be_had_from_a_file_is_told(content: bytes, name: str, key: str | None) -> None:
    with pytest.raises(InputsUnreadable) as raised:
        made({"file": name, "key": key}, {name: content})
    assert raised.value.facts["file"] == name


def test_a_wrong_key_lists_the_keys() -> None:
    with pytest.raises(InputsUnreadable) as raised:
        made({"file": "x.npz", "key": "z"}, FILES)
    assert raised.value.facts["keys"] == ["x", "big"]
