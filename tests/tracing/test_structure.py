"""How values nest, and what of them is handed over to an archive."""

from typing import Any

import pytest
import torch

from workers import structure

A, B = torch.tensor(1), torch.tensor(2)

VALUES = [
    (A, A),
    ((A, [B, 3]), (A, [B])),
    ({"a": A, "n": None, "deep": {"only": "text"}}, {"a": A}),
    ([{"x": A, "flag": True}, (B, "text", [])], [{"x": A}, (B,)]),
]


@pytest.mark.parametrize(("value", "traced"), VALUES)
def test_only_tensors_are_handed_over_nested_as_they_were(value: Any, traced: Any) -> None:
    assert structure.handed_over(value) == traced
    assert structure.completed(value, traced) == value


@pytest.mark.parametrize(("value", "traced"), VALUES)
def test_a_described_value_is_assembled_from_its_tensors(value: Any, traced: Any) -> None:
    described = structure.describe(value, "x")

    assert structure.assemble(described, structure.tensors(value, "x")) == traced


def test_leaves_are_named_by_their_paths() -> None:
    value = {"pair": (A, B), "list": [A, {"deep": B}]}

    assert list(structure.tensors(value, "x")) == ["x.pair.0", "x.pair.1", "x.list.0", "x.list.1.deep"]


@pytest.mark.parametrize("value", [None, 3, "text", [], (), {}, [1, (2, None)], {"a": [True]}])
def test_what_holds_no_tensor_is_baked_in_whole(value: Any) -> None:
    assert not structure.is_traced(structure.describe(value, "x"))


@pytest.mark.parametrize(
    ("value", "whole"), [(A, True), ((A, [B]), True), ((A, []), False), ([A, 1], False), ([], False)]
)
def test_whether_a_value_is_handed_over_whole(value: Any, whole: bool) -> None:
    assert structure.only_tensors(value) == whole
