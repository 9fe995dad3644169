"""Truths that decide together, and of which none decides alone."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
NONE = -torch.rand(2, 3, generator=torch.Generator().manual_seed(0)) - 0.1


class CountsTruths(nn.Module):
    """Takes another way where exactly two of three columns are positive."""

    def forward(self, x: Tensor) -> Tensor:
        truths = [bool((x[..., place] > 0).all()) for place in range(3)]
        return x * 2 if sum(truths) == 2 else x + 1


class CountsTruthsOfManyRows(nn.Module):
    """Takes another way for over 20 rows alone, where the first and the third column have a positive number."""

    def forward(self, x: Tensor) -> Tensor:
        truths = tuple(bool((x[..., place] > 0).any()) for place in range(3))
        return x * 2 if x.shape[0] > 20 and truths == (True, False, True) else x + 1


class AsksOneAfterAnother(nn.Module):
    """Asks each truth only where those before it are true: the example comes to the first alone."""

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean(0)
        if means[0] > 2:  # noqa: SIM102
            if means[1] < -2:  # noqa: SIM102
                if means[2] > 2:  # noqa: SIM102
                    if means[3] < -2:
                        return x * 0
        return x


class AsksOneAfterAnotherAndGoesOn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        means = x.mean(0)
        if means[0] > 2:  # noqa: SIM102
            if means[1] < -2:
                return x * 1.0
        return x * 1.0


class AsksAndGoesOn(nn.Module):
    """Asks three truths, and computes the same whatever they are."""

    def forward(self, x: Tensor) -> Tensor:
        truths = [bool((x[..., place] > 0).all()) for place in range(3)]
        return x + 1 if sum(truths) == 2 else 1 + x


def test_truths_that_decide_together_are_rejected_at_the_sizes_of_the_example() -> None:
    report = tracehouse.check(CountsTruths(), (NONE,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED


def test_truths_that_are_asked_for_one_after_another_are_rejected() -> None:
    report = tracehouse.check(AsksOneAfterAnother(), (torch.zeros(3, 6),), budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED


def test_truths_that_are_asked_for_one_after_another_and_decide_nothing_are_right() -> None:
    report = tracehouse.check(AsksOneAfterAnotherAndGoesOn(), (torch.zeros(3, 6),), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED


@pytest.mark.parametrize("sizes", [{"batch": 21, "n0": 3}, {"batch": 256, "n0": 8}])
def test_sizes_at_which_truths_decide_together_are_not_accepted(sizes: dict[str, int]) -> None:
    report = tracehouse.check(CountsTruthsOfManyRows(), (NONE,), budget_s=BUDGET_S)

    regions = report.contract.method("forward").regions
    assert any(region.contains(sizes | {"batch": 20}) for region in regions)
    assert not any(region.contains(sizes) for region in regions)


def test_truths_that_decide_nothing_are_proven() -> None:
    report = tracehouse.check(AsksAndGoesOn(), (NONE,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    assert any(region.basis == "proven" for region in report.contract.method("forward").regions)


def test_truths_that_the_proof_follows_both_ways_need_no_calls_with_others() -> None:
    report = tracehouse.check(AsksAndGoesOn(), (NONE,), budget_s=BUDGET_S)

    assert report.check is not None
    summaries = {layer.name: layer.summary for layer in report.check.layers}
    assert summaries["flip"] == "nothing: the proof settles what the model reads"


class RefusesNegativeNumbers(nn.Module):
    """Computes the same whatever it asks, where it does not raise."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x < -1e6).any()):
            raise ValueError("too small")
        return x + 1


def test_a_truth_for_which_the_model_raises_is_left_to_calls() -> None:
    report = tracehouse.check(RefusesNegativeNumbers(), (NONE,), budget_s=BUDGET_S)

    assert report.check is not None
    summaries = {layer.name: layer.summary for layer in report.check.layers}
    assert summaries["flip"] == "1 read: 1 harmless"
