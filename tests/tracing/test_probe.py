"""Probes: other values of the same shapes and datatypes."""

from typing import Any

import pytest
import torch

from workers.tracing.call import Call, bind
from workers.tracing.checks.probe import probes
from workers.tracing.model import Function


def call(*args: Any) -> Call:
    names = ", ".join(f"x{place}" for place in range(len(args)))
    return bind(Function(eval(f"lambda {names}: 0")), "forward", "forward", args, {})


def probed(tensor: torch.Tensor) -> dict[str, Any]:
    return {name: probe.tensors["x0"].tolist() for name, probe in probes(call(tensor))}


def test_floats_are_negated_zeroed_scaled_and_moved() -> None:
    assert probed(torch.tensor([1.0, -2.0])) == {
        "probe: negated": [-1.0, 2.0],
        "probe: zeros": [0.0, 0.0],
        "probe: ten times as large": [10.0, -20.0],
        "probe: reversed order": [-2.0, 1.0],
    }


def test_integers_stay_within_the_range_that_was_seen() -> None:
    assert probed(torch.tensor([3, 9, 5])) == {
        "probe: reversed order": [5, 9, 3],
        "probe: smallest integers": [3, 3, 3],
        "probe: largest integers": [9, 9, 9],
    }


def test_booleans_are_flipped_and_set() -> None:
    assert probed(torch.tensor([True, False, False])) == {
        "probe: reversed order": [False, False, True],
        "probe: booleans flipped": [False, True, True],
        "probe: booleans all true": [True, True, True],
    }


def test_a_probe_that_changes_nothing_is_left_out() -> None:
    assert probed(torch.zeros(2, 2)) == {}
    assert probed(torch.ones(0)) == {}


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
)
def test_every_dtype_can_be_probed(dtype: torch.dtype) -> None:
    tensor = torch.tensor([1, 2, 3]).to(dtype)

    assert all(probe.tensors["x0"].dtype is dtype for _, probe in probes(call(tensor)))
    assert probed(tensor)["probe: reversed order"] == [3, 2, 1]


def test_what_is_no_tensor_stays() -> None:
    for _, probe in probes(call([torch.ones(1), torch.tensor([1, 2])], 3.0)):
        assert probe.arguments["x1"] == 3.0


def test_the_example_is_not_touched() -> None:
    tensor = torch.tensor([1.0, -2.0])
    for _, probe in probes(call(tensor)):
        probe.tensors["x0"].zero_()

    assert tensor.tolist() == [1.0, -2.0]
