"""Inputs of other ranks than the example's: the check opens a rank only where the whole check finds the trace right."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.contract.contract import MethodContract
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
PAGE = torch.arange(10.0).reshape(2, 5) - 3.0
CUBE = torch.arange(30.0).reshape(2, 3, 5) - 7.0


def check(model: Any, *samples: Any, example: Any = PAGE, **options: Any) -> Any:
    return tracehouse.check(model, example, samples=[*samples], budget_s=BUDGET_S, **options)


def forward(report: Any) -> MethodContract:
    contract: MethodContract = report.contract.method("forward")
    return contract


def reason(report: Any) -> str:
    (finding,) = [one for one in report.findings if one.kind == "ranks-not-covered"]
    detail: str = finding.detail
    return detail


def test_a_linear_layer_is_proven_for_the_ranks_that_samples_have() -> None:
    report = check(nn.Linear(5, 4), CUBE, PAGE[0])

    cubes, rows = forward(report).other_ranks
    assert (cubes.inputs[0].shape, cubes.outputs[0].shape) == (("batch", "seq", 5), ("batch", "seq", 4))
    assert [region.basis for region in cubes.regions] == ["proven"]
    assert (rows.inputs[0].shape, rows.outputs[0].shape) == ((5,), (4,))
    assert report.verdict is Verdict.VERIFIED
    assert "also in other ranks" in repr(report)
    assert "Inputs of forward in other ranks" in report.html()


def test_a_check_input_opens_its_rank_too() -> None:
    report = tracehouse.check(nn.ReLU(), PAGE, check_inputs=[CUBE], budget_s=BUDGET_S)

    assert [other.ranks for other in forward(report).other_ranks] == [{"input": 3}]


def test_without_an_input_of_another_rank_none_is_opened() -> None:
    assert forward(check(nn.ReLU(), PAGE[:1])).other_ranks == []


class BranchesOnValues(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 3 and bool(x.sum() > 1000.0):
            return x * 3
        return x * 2


class TriplesLongCubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3 if x.dim() == 3 and x.shape[1] > 7 else x * 2


class CountsCubes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cubes = 0

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 3:
            self.cubes += 1
        return x * 2 if self.cubes < 60 else x * 3


class KeepsItsFirstRank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rank = 0

    def forward(self, x: Tensor) -> Tensor:
        self.rank = self.rank or x.dim()
        return x * 2 if self.rank == x.dim() else x * 3


class TriplesLinesAfterACube(nn.Module):
    """Neither a cube nor a line changes what a page is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.had_cube = False

    def forward(self, x: Tensor) -> Tensor:
        self.had_cube = self.had_cube or x.dim() == 3
        return x * 3 if self.had_cube and x.dim() == 1 else x * 2


class ComputesCubesOtherwise(nn.Module):
    """Both ways give the same numbers, as far as anybody tries."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.dim() == 2 else x + x


class DrawsForCubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, training=x.dim() == 3)


class TakesADict(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        first = next(iter(batch)) if batch["x"].dim() == 3 else "x"
        return batch[first] * 2 + batch["y"] * 0


class ReturnsItsRank(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        return x * 2, x.dim()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (BranchesOnValues(), "reads a value out of a tensor"),
        (TriplesLongCubes(), "keeps the example's size"),
        (CountsCubes(), "changes cubes"),
        (KeepsItsFirstRank(), "after a call of another rank"),
        (ComputesCubesOtherwise(), "another graph"),
        (DrawsForCubes(), "differ on samples[0]"),
        (nn.Dropout(0.5), "random numbers"),
        (ReturnsItsRank(), "differ on samples[0]"),
        (nn.Conv1d(2, 2, 1), "differ on samples[0]"),
    ],
)
def test_a_rank_in_which_the_trace_is_wrong_stays_closed_with_the_reason(model: nn.Module, why: str) -> None:
    sample = PAGE if isinstance(model, nn.Conv1d) else CUBE
    report = check(model, sample, example=torch.ones(3, 2, 5) if isinstance(model, nn.Conv1d) else PAGE)

    assert forward(report).other_ranks == []
    assert why in reason(report)


def test_two_other_ranks_of_which_one_changes_the_answer_of_the_next_do_not_both_open() -> None:
    report = check(TriplesLinesAfterACube(), CUBE, torch.ones(5))

    assert [len(one.inputs[0].shape) for one in forward(report).other_ranks] == [3]
    assert "after a call of another rank" in reason(report)


def test_a_dict_whose_keys_may_matter_in_another_rank_stays_closed() -> None:
    report = check(TakesADict(), ({"x": CUBE, "y": CUBE},), example=({"x": PAGE, "y": PAGE},))

    assert forward(report).other_ranks == []
    assert "dicts" in reason(report)


def test_a_script_takes_the_ranks_that_it_answers_as_the_example() -> None:
    report = check(torch.jit.script(nn.Conv1d(2, 2, 1)), PAGE, example=torch.ones(3, 2, 5))

    assert [other.ranks for other in forward(report).other_ranks] == [{"input": 2}]
