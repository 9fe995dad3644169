"""Shrink: what is left of an input on which two models differ."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.tracehouse.check.inputs.test_thresholds import call
from tracehouse.check.probe.shrink import shrink
from tracehouse.check.size_groups import Groups
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call

BATCH_AND_LENGTH = Groups({"x0": ("batch", "length"), "x1": ("batch",)}, {"batch": 4, "length": 6}, {})


def shrink_tensors(
    *args: torch.Tensor, groups: Groups | None = None, where: Callable[..., bool], **limits: Any
) -> list[Any]:
    """Return the tensors of the shrunken call; `where` says of which tensors the models differ."""
    small = shrink(
        call(*args), groups, lambda one: bool(where(*one.tensors.values())), Budget(30), **limits
    )  # fmt: skip
    return [tensor.tolist() for tensor in small.tensors.values()]


def test_sizes_go_down_to_the_smallest_that_differ() -> None:
    left = shrink_tensors(
        torch.randn(4, 6), torch.randn(4), groups=BATCH_AND_LENGTH, where=lambda x, y: x.shape[0] > 1 and x.shape[1] > 2
    )

    assert left == [[[0.0] * 3] * 2, [0.0] * 2]


def test_without_groups_the_sizes_stay() -> None:
    assert shrink_tensors(torch.randn(2, 2), where=lambda x: True) == [[[0.0, 0.0], [0.0, 0.0]]]


def test_the_part_of_the_values_that_differs_is_kept() -> None:
    values = torch.zeros(4, 6)
    values[3, 5] = 7.25

    assert shrink_tensors(values, torch.zeros(4), groups=BATCH_AND_LENGTH, where=lambda x, y: x.max() > 7.2) == [
        [[7.25]],
        [0.0],
    ]


def test_all_but_the_elements_that_count_become_zeros() -> None:
    left = shrink_tensors(torch.randn(100) + 5, where=lambda x: x[17] > 0.5 and x[80] > 0.5)[0]

    assert [(place, value) for place, value in enumerate(left) if value] == [(17, 1.0), (80, 1.0)]


def test_numbers_lose_their_digits() -> None:
    assert shrink_tensors(torch.tensor([3.14159, 2.71828]), where=lambda x: (x > 2.6).all()) == [[3.0, 3.0]]
    assert shrink_tensors(torch.tensor([0.123456]), where=lambda x: 0.05 < x[0] < 0.5) == [[pytest.approx(0.1)]]


def test_integers_come_near_zero() -> None:
    assert shrink_tensors(torch.tensor([900, 30, 7]), where=lambda x: x[0] > 20 and x[1] > 3) == [[21, 4, 0]]
    assert shrink_tensors(torch.tensor([64, 0]), where=lambda x: x[0] > 3) == [[4, 0]]
    assert shrink_tensors(torch.tensor([-64, 0]), where=lambda x: x[0] < -3) == [[-4, 0]]


def test_where_many_elements_count_they_become_alike() -> None:
    assert shrink_tensors(torch.rand(40) + 5, where=lambda x: (x > 2).all()) == [[pytest.approx(5, abs=1)] * 40]
    assert shrink_tensors(torch.rand(40) + 5, where=lambda x: (x > 0.5).all()) == [[1.0] * 40]


def test_what_is_not_a_number_stays_where_it_shows() -> None:
    left = shrink_tensors(torch.tensor([1.5, float("nan"), 2.5]), where=lambda x: x.isnan().any())

    assert str(left) == "[[0.0, nan, 0.0]]"


def test_each_input_becomes_simple() -> None:
    left = shrink_tensors(torch.randn(3), torch.tensor([True, True]), where=lambda x, mask: bool(mask[1]))

    assert left == [[0.0, 0.0, 0.0], [False, True]]


def test_no_more_calls_are_made_than_are_allowed() -> None:
    asked: list[Call] = []

    def differs(one: Call) -> bool:
        asked.append(one)
        return False

    shrink(call(torch.randn(50, 50)), None, differs, Budget(30), calls_max=7)
    assert len(asked) == 7


def test_without_time_the_input_stays() -> None:
    values = torch.randn(3)

    assert shrink(call(values), None, lambda _: True, Budget(0)).tensors["x0"] is values


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.uint64, torch.bool, torch.int16])
def test_every_dtype_can_be_shrunk(dtype: torch.dtype) -> None:
    values = torch.tensor([[3, 9], [5, 2]]).to(dtype)
    small = shrink(call(values), None, lambda one: bool(one.tensors["x0"][0, 0] == values[0, 0]), Budget(30))

    assert small.tensors["x0"].dtype is dtype
    assert len({*small.tensors["x0"].flatten().tolist()} - {0}) == 1


def test_a_slow_comparison_ends_with_the_budget() -> None:
    asked: list[Call] = []

    def differs(one: Call) -> bool:
        asked.append(one)
        time.sleep(0.05)
        return False

    shrink(call(torch.randn(50, 50)), None, differs, Budget(0.1, patience=1))
    assert len(asked) <= 3
