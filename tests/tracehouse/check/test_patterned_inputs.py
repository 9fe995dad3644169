"""A model may take only inputs with a pattern, such as probabilities: the check draws such inputs then."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
SHARES = torch.tensor([[0.3, 0.2, 0.25, 0.25], [0.1, 0.6, 0.2, 0.1]])


class TakesProbabilities(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        if not bool(((p.sum(-1) - 1).abs() < 1e-4).all()):
            raise ValueError("these are no probabilities")
        return self.answer(p)

    def answer(self, p: Tensor) -> Tensor:
        raise NotImplementedError


class AnswersTheSameInTwoWays(TakesProbabilities):
    def answer(self, p: Tensor) -> Tensor:
        return p + p if bool(p[0, 0] > 0.5) else p * 2


class AnswersOtherwiseWhereOneIsLarge(TakesProbabilities):
    def answer(self, p: Tensor) -> Tensor:
        return p * 3 if bool(p[0, 0] > 0.5) else p * 2


class TakesAscendingOffsets(nn.Module):
    """Takes offsets that ascend from 0, of which other sizes must be such, too."""

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        if bool((offsets[1:] <= offsets[:-1]).any()) or bool(offsets[0] != 0):
            raise ValueError("these are no offsets")
        return x * offsets.sum()


def test_both_sides_of_a_branch_are_tried_with_inputs_that_the_model_takes() -> None:
    report = tracehouse.check(AnswersTheSameInTwoWays(), SHARES, budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED


def test_a_branch_on_such_inputs_has_a_counterexample() -> None:
    report = tracehouse.check(AnswersOtherwiseWhereOneIsLarge(), SHARES, budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
    (found,) = [one for one in report.findings if one.kind == "baked-value"]
    assert found.confirmed
    assert report.counterexamples


def test_probes_that_are_refused_are_tried_again_as_the_example_is() -> None:
    report = tracehouse.check(TakesAscendingOffsets(), (SHARES, torch.tensor([0, 2, 5])), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    assert "probe: reversed order" in [one.case for one in report.check.comparisons]
