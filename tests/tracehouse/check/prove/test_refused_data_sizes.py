"""Sizes that values decide and the model refuses: at the others it is proven, if the model refuses them for sure."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tests.models import refuses_what_values_decide as models
from tracehouse.contract.regions import Region
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0


def regions_of(model: nn.Module, *inputs: Tensor) -> list[Region]:
    report = tracehouse.check(model.eval(), inputs, budget_s=BUDGET_S)
    return report.contract.method("forward").regions if report.verdict is not Verdict.REJECTED else []


def test_a_count_that_no_division_takes_hinders_no_proof() -> None:
    regions = regions_of(models.CountsDegrees(), torch.randn(6, 4), torch.randint(0, 6, (11,)))

    assert [(str(one), one.basis) for one in regions] == [("batch 1 to 1024, n0 0 to 1024", "proven")]


@pytest.mark.parametrize(
    "model", [models.AssertsThatSomeArePositive(), models.RaisesWithoutPositives()], ids=lambda one: type(one).__name__
)
def test_a_count_that_the_model_checks_hinders_no_proof(model: nn.Module) -> None:
    regions = regions_of(model, torch.randn(6, 4).abs())

    assert {one.basis for one in regions} == {"proven"}
    assert any(256 in span for one in regions for span in one.spans["batch"])


@pytest.mark.parametrize(
    "model",
    [
        models.SuppressesItsOwnCheck(),
        models.DoublesWhereOneIsPositive(),
        models.CountsFromFive(),
        models.RefusesSeveral(),
        models.CountsWhatItRefuses(),
        models.TakesAnotherErrorForARefusal(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_nothing_is_proven_where_a_count_changes_the_answer(model: nn.Module) -> None:
    assert not any(one.basis == "proven" for one in regions_of(model, torch.randn(2, 4).abs()))


def test_nothing_is_proven_where_the_model_catches_what_a_division_refuses() -> None:
    regions = regions_of(models.TakesTheSumOfFurtherOnes(), torch.randn(6, 4), torch.randint(0, 6, (11,)))

    assert not any(one.basis == "proven" and 6 in span for one in regions for span in one.spans["batch"])
