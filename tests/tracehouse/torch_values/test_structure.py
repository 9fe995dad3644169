"""How values nest, and what of them is handed over to an archive."""

from enum import IntEnum
from typing import Any

import pytest
import torch

from tracehouse.contract.structure import BakedLeaf, FixedLeaf, ListNode, TupleNode
from tracehouse.torch_values import structure
from tracehouse.torch_values.structure import LeftOut

A, B = torch.tensor(1), torch.tensor(2)

VALUES = [
    (A, A),
    ((A, [B, 3]), (A, [B])),
    ({"a": A, "n": None, "deep": {"only": "text"}}, {"a": A}),
    ([{"x": A, "flag": True}, (B, "text", [])], [{"x": A}, (B,)]),
]


@pytest.mark.parametrize(("value", "traced"), VALUES)
def test_only_tensors_are_handed_over_nested_as_they_were(value: Any, traced: Any) -> None:
    assert structure.strip_baked(value) == traced
    assert structure.fill_in(value, traced) == value


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
    assert structure.has_only_tensors(value) == whole


class Mode(IntEnum):
    FAST = 1


@pytest.mark.parametrize(
    ("default", "baked", "fixed"),
    [
        (2.0, BakedLeaf(baked=2.0), FixedLeaf(fixed=2.0)),
        (None, BakedLeaf(baked=None), FixedLeaf(fixed=None)),
        ((1, "a"), BakedLeaf(baked=[1, "a"]), TupleNode(tuple=[FixedLeaf(fixed=1), FixedLeaf(fixed="a")])),
        ([], BakedLeaf(baked=[]), ListNode(list=[])),
    ],
)
def test_a_plain_default_is_baked_in_a_trace_and_an_argument_of_a_script(default: Any, baked: Any, fixed: Any) -> None:
    left_out = LeftOut(default)

    assert structure.describe(left_out, "x") == baked
    assert not structure.is_passed_to_artifact(left_out, scripted=False)
    assert structure.describe(left_out, "x", scripted=True) == fixed
    assert structure.assemble(fixed, {}) == structure.strip_baked(left_out, scripted=True) == default


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (A, "<torch.int64 of shape []>"),
        ([A], "<list of 1>"),
        (float("nan"), "nan"),
        (2**80, "<int>"),
        ("x" * 1000, "<str>"),
        (list(range(1000)), "<list of 1000>"),
        ({1: 2}, "<dict of 1>"),
        (Mode.FAST, "<Mode>"),
        (object(), "<object>"),
    ],
)
def test_any_other_default_is_shown_short_and_never_handed_over(default: Any, shown: str) -> None:
    for scripted in (False, True):
        assert structure.describe(LeftOut(default), "x", scripted=scripted) == BakedLeaf(baked=shown)
        assert not structure.is_passed_to_artifact(LeftOut(default), scripted=scripted)


@pytest.mark.parametrize(("value", "_"), VALUES)
def test_a_script_takes_a_value_whole(value: Any, _: Any) -> None:
    described = structure.describe(value, "x", scripted=True)

    assert structure.assemble(described, structure.tensors(value, "x")) == value
