"""Differences that are smaller than a usual tolerance, and far larger than rounding: the model's state makes them."""

from typing import Any

import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0


class KeepsItsFirstLength(nn.Module):
    first: int | None = None

    def scale(self, x: Tensor, *, is_first: bool) -> Tensor:
        self.first = x.shape[1] if self.first is None else self.first
        return x * 2 if is_first else x * 2.000006


class OtherFromTheSecondCallOn(KeepsItsFirstLength):
    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x, is_first=self.first is None)


class OtherAtOtherLengths(KeepsItsFirstLength):
    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x, is_first=self.first in (None, x.shape[1]))


def check(model: nn.Module) -> Any:
    return tracehouse.check(model.eval(), (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),),
                            budget_s=BUDGET_S)  # fmt: skip


def test_a_second_call_that_answers_slightly_otherwise_rejects() -> None:
    report = check(OtherFromTheSecondCallOn())

    assert report.verdict is Verdict.REJECTED
    assert "hidden-state" in {finding.kind for finding in report.findings}


def test_a_length_of_an_earlier_call_that_changes_the_answer_slightly_closes_the_contract() -> None:
    report = check(OtherAtOtherLengths())

    assert "keeps-a-size" in {finding.kind for finding in report.findings}
    assert [*report.contract.method("forward").inputs[0].shape] == [3, 4]
