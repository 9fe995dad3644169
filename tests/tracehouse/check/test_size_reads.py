"""Values that Python reads at other sizes than the example's, where nothing is proven: the masks are kept by length."""

import functools

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tests.tracehouse.check.targets import make_target
from tracehouse.check.graphs.size_tests import SizeTest
from tracehouse.check.report import Report
from tracehouse.check.size_reads import find_sizes_decided_by_values
from tracehouse.differential.budget import Budget
from tracehouse.errors import ContractViolation
from tracehouse.torch_values.tensors import pack

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
SIX_STEPS = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


MASKS_MADE: list[int] = []


@functools.lru_cache
def mask_of(length: int) -> Tensor:
    """Return a mask which a cache keeps, with a list of them beside it, so that no proof follows the length."""
    MASKS_MADE.append(length)
    return torch.ones(length, length).tril().bool()


def attend(x: Tensor) -> Tensor:
    scores = (x @ x.transpose(1, 2)).masked_fill(~mask_of(x.shape[1]), -1e4)
    return scores.softmax(-1) @ x


class HalvesLoudLongOnes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = attend(x)
        return y / 2 if x.shape[1] > 8 and y.abs().max() > 100 else y


class HalvesLongOnesOfOneMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = attend(x)
        if x.shape[1] > 8:
            mean = float(x.mean())
            if 111 < mean < 112:
                return y / 2
        return y


class HalvesLongOnesOfManyLoudNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = attend(x)
        return y / 2 if x.shape[1] > 8 and x[x > 100].numel() > 5 else y


class SaysThatLongOnesAreLoud(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = attend(x)
        if x.shape[1] > 8 and y.abs().max() > 100:
            print("loud")
        return y


def is_accepted(report: Report, x: Tensor) -> bool:
    try:
        report.contract.method("forward").accept(pack({"x": x}))
    except ContractViolation:
        return False
    return True


@pytest.mark.parametrize("model", [HalvesLoudLongOnes(), HalvesLongOnesOfOneMean(), HalvesLongOnesOfManyLoudNumbers()])
def test_calls_show_nothing_of_a_length_at_which_another_value_changes_the_answer(model: nn.Module) -> None:
    report = tracehouse.check(model, (SIX_STEPS,), budget_s=BUDGET_S)

    for length in range(1, 66):
        loud = torch.full((2, length, 8), 111.5)
        if is_accepted(report, loud):
            torch.testing.assert_close(report.artifact(loud), model(loud))
    assert is_accepted(report, SIX_STEPS)
    assert is_accepted(report, SIX_STEPS[:, :5])


def test_calls_show_a_length_at_which_a_value_is_read_and_changes_nothing() -> None:
    report = tracehouse.check(SaysThatLongOnesAreLoud(), (SIX_STEPS,), budget_s=BUDGET_S)

    assert is_accepted(report, torch.randn(2, 17, 8))


def test_the_sizes_that_there_is_no_time_to_ask_at_are_one_line() -> None:
    target = make_target(HalvesLoudLongOnes(), SIX_STEPS)
    calls = {length: target.call.with_tensors({"x": torch.randn(2, length, 8)}) for length in (3, 9, 17)}
    budget = Budget(0.0)

    find_sizes_decided_by_values(
        target, [SizeTest({"seq": length}, call, "agrees") for length, call in calls.items()], (), budget
    )

    assert budget.left_out() == ["whether values that the model reads decide at seq 17 and 2 more sizes"]
