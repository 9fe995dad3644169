"""Sizes that values decide and the model refuses: at the others it is proven, if the model refuses them for sure."""

import contextlib

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.contract.regions import Region
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0


class CountsDegrees(nn.Module):
    """Divides by how many edges lead to each node. An edge to a node that is not there gives one number too many."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        degrees = torch.bincount(targets, minlength=x.shape[0])
        return self.linear(x) / degrees.clamp(min=1)[:, None]


class AssertsThatSomeArePositive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x[x > 0].shape[0] > 0
        return x * 2


class RaisesWithoutPositives(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        positives = x[x > 0]
        if positives.numel() == 0:
            raise ValueError("all are negative")
        return x - positives.mean()


class TakesTheSumOfFurtherOnes(nn.Module):
    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        degrees = torch.bincount(targets, minlength=x.shape[0])
        try:
            return x / degrees.clamp(min=1)[:, None]
        except RuntimeError:
            return x * degrees.sum()


class SuppressesItsOwnCheck(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with contextlib.suppress(AssertionError):
            assert x[x > 0].shape[0] > 0
            return x * 2
        return x * 3


class DoublesWhereOneIsPositive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = x[x > 0].shape[0]
        assert count > 0
        return x * 2 if count == 1 else x


class CountsFromFive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = x[x > 0].shape[0]
        assert count > 0
        return x * count if count > 4 else x


class RefusesSeveral(nn.Module):
    """All but one are refused by a number that is less than some of them, not all."""

    def forward(self, x: Tensor) -> Tensor:
        count = x[x > 0].shape[0]
        if count > 9:
            raise ValueError("too many are positive")
        return x * 2 if count < 6 else x


class CountsWhatItRefuses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def forward(self, x: Tensor) -> Tensor:
        self.refused += 1
        assert x[x > 0].shape[0] > 0
        self.refused -= 1
        return x * (1 + self.refused)


class TakesAnotherErrorForARefusal(nn.Module):
    """The size knows its bits, also where it is a symbol in the proof and not Python's own."""

    def forward(self, x: Tensor) -> Tensor:
        count = x[x > 0].shape[0]
        try:
            is_large = count.__class__.__mro__[1] is object and count > 4
        except TypeError:
            is_large = False
        if not (is_large or count < 100000):
            raise ValueError
        return x * 2 if is_large else x


def regions_of(model: nn.Module, *inputs: Tensor) -> list[Region]:
    report = tracehouse.check(model.eval(), inputs, budget_s=BUDGET_S)
    return report.contract.method("forward").regions if report.verdict is not Verdict.REJECTED else []


def test_a_count_that_no_division_takes_hinders_no_proof() -> None:
    regions = regions_of(CountsDegrees(), torch.randn(6, 4), torch.randint(0, 6, (11,)))

    assert [(str(one), one.basis) for one in regions] == [("batch 1 to 1024, n0 0 to 1024", "proven")]


@pytest.mark.parametrize(
    "model", [AssertsThatSomeArePositive(), RaisesWithoutPositives()], ids=lambda one: type(one).__name__
)
def test_a_count_that_the_model_checks_hinders_no_proof(model: nn.Module) -> None:
    regions = regions_of(model, torch.randn(6, 4).abs())

    assert {one.basis for one in regions} == {"proven"}
    assert any(256 in span for one in regions for span in one.spans["batch"])


@pytest.mark.parametrize(
    "model",
    [
        SuppressesItsOwnCheck(),
        DoublesWhereOneIsPositive(),
        CountsFromFive(),
        RefusesSeveral(),
        CountsWhatItRefuses(),
        TakesAnotherErrorForARefusal(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_nothing_is_proven_where_a_count_changes_the_answer(model: nn.Module) -> None:
    assert not any(one.basis == "proven" for one in regions_of(model, torch.randn(2, 4).abs()))


def test_nothing_is_proven_where_the_model_catches_what_a_division_refuses() -> None:
    regions = regions_of(TakesTheSumOfFurtherOnes(), torch.randn(6, 4), torch.randint(0, 6, (11,)))

    assert not any(one.basis == "proven" and 6 in span for one in regions for span in one.spans["batch"])
