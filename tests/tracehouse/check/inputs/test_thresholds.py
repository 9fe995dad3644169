"""Thresholds: inputs on both sides of a number."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch

from tracehouse.check.inputs.thresholds import aim_probes
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import Function


@dataclass(frozen=True)
class Compared:
    number: float


def call(*args: Any) -> Call:
    names = ", ".join(f"x{place}" for place in range(len(args)))
    return bind(Function(eval(f"lambda {names}: 0")), "forward", "forward", args, {})


@pytest.mark.parametrize(
    ("statistic", "number"),
    [
        *product(
            [torch.min, torch.mean, torch.sum, lambda x: x.flatten()[0], lambda x: x.flatten()[-1]],
            [10.0, 0.5, 0.0, -3.25, 1e4],
        ),
        # Of this example's values, whatever their signs, they are above 0.
        *product([torch.max, lambda x: x.norm() if x.any() else torch.tensor(-1e9), torch.std], [10.0, 0.5, 0.0, 1e4]),
    ],
)
def test_statistics_fall_on_both_sides(statistic: Callable[[torch.Tensor], torch.Tensor], number: float) -> None:
    example = torch.tensor([[0.3, -1.2], [2.0, 0.1]])
    seen = [float(statistic(probe.tensors["x0"])) for _, probe in aim_probes(call(example), [Compared(number)])]

    assert min(seen) < number < max(seen) or (number == 0.0 == min(seen) < max(seen))


@pytest.mark.parametrize("number", [2, 2.5, 1, 0])
@pytest.mark.parametrize("statistic", [torch.max, torch.sum, torch.count_nonzero, lambda x: x.flatten()[-1]])
def test_integers_fall_beside_a_number_and_on_it(
    number: float, statistic: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    example = torch.tensor([[7, 8], [9, 1]])
    seen = {int(statistic(probe.tensors["x0"])) for _, probe in aim_probes(call(example), [Compared(number)])}

    assert {int(number), int(number) + 1} <= seen


def test_so_many_of_a_mask_are_true() -> None:
    example = torch.ones(2, 3, dtype=torch.bool)
    seen = {int(probe.tensors["x0"].sum()) for _, probe in aim_probes(call(example), [Compared(4)])}

    assert seen == {3, 4, 5}


def test_a_share_of_a_mask_is_true() -> None:
    example = torch.ones(8, dtype=torch.int64)
    seen = {float(probe.tensors["x0"].double().mean()) for _, probe in aim_probes(call(example), [Compared(0.5)])}

    assert {0.375, 0.5, 0.625} <= seen


def test_numbers_and_inputs_take_turns() -> None:
    example = call(torch.tensor([0.3]), torch.tensor([0.4]))
    names = [name for name, _ in aim_probes(example, [Compared(5.0), Compared(7.0)])][:4]

    assert [("'x0'" in name, "at 5" in name) for name in names] == [
        (True, True), (False, True), (True, False), (False, False),
    ]  # fmt: skip


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1e300, 2**70, -(2**63)])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.uint64, torch.int64, torch.bool]
)
def test_probes_keep_their_dtype_whatever_the_threshold(number: float, dtype: torch.dtype) -> None:
    example = torch.ones(2, 2).to(dtype)

    assert all(probe.tensors["x0"].dtype is dtype for _, probe in aim_probes(call(example), [Compared(number)]))


def test_nothing_is_aimed_without_a_number_or_an_element() -> None:
    assert not list(aim_probes(call(torch.ones(2)), []))
    assert not list(aim_probes(call(torch.ones(0)), [Compared(1.0)]))


def test_shifted_values_stay_as_far_from_one_another() -> None:
    example = torch.tensor([1.0, 2.0, 4.0])
    shifted = [probe.tensors["x0"] for name, probe in aim_probes(call(example), [Compared(10.0)]) if "shifted" in name]

    assert any(torch.allclose(one.diff(), example.diff()) and one.mean() > 10 for one in shifted)
    assert any(torch.allclose(one.diff(), example.diff()) and one.mean() < 10 for one in shifted)
