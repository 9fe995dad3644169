"""Samples: real inputs are compared, their sizes are tried, and the report says whether there were any."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0
X = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class BoundsInATrace(nn.Module):
    """Bounds in a trace what no probe reaches."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(max=1e30) * 2 if torch.jit.is_tracing() else x * 2


class KeepsItsBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(float(int(x.shape[0])))[:, None]


def test_without_samples_the_report_says_that_inputs_were_drawn_alone() -> None:
    report = tracehouse.check(Doubles(), X, budget_s=BUDGET_S)

    assert report.check.samples == 0
    assert "Drawn inputs only" in repr(report)
    assert "Drawn inputs only" in report.html()


def test_samples_are_compared_and_counted() -> None:
    report = tracehouse.check(Doubles(), X, samples=[(-X,), {"x": X[:1]}], budget_s=BUDGET_S)

    assert [one.agrees for one in report.check.comparisons if one.case in ("samples[0]", "samples[1]")] == [True, True]
    assert report.check.samples == 2
    assert "2 samples of real inputs" in repr(report)
    assert report.verdict is Verdict.VERIFIED


def test_a_sample_that_the_artifact_answers_otherwise_rejects_it_and_is_the_counterexample() -> None:
    sample = torch.full((2, 3), 1e35)
    report = tracehouse.check(BoundsInATrace(), X, samples=[(sample,)], budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
    (shown,) = [one for one in report.counterexamples if one.case == "samples[0]"]
    assert torch.equal(torch.as_tensor(shown.inputs["x"]), sample)


def test_the_size_of_a_sample_is_tried() -> None:
    far = tracehouse.check(Doubles(), X, samples=[(torch.zeros(3000, 3),)], budget_s=BUDGET_S)

    assert far.verdict is Verdict.VERIFIED
    assert any(region.contains({"batch": 3000, "n0": 3}) for region in far.contract.method("forward").regions)


def test_a_sample_that_the_contract_refuses_restricts_and_is_named() -> None:
    report = tracehouse.check(KeepsItsBatch(), X, samples=[(X,), (torch.zeros(7, 3),)], budget_s=BUDGET_S)

    assert report.verdict is Verdict.RESTRICTED
    (refused,) = [one for one in report.findings if one.kind == "sizes-not-covered"]
    assert refused.evidence["case"] == "samples[1]"


def test_samples_that_are_no_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="samples is a Tensor: give a list of calls"):
        tracehouse.check(Doubles(), X, samples=X)


def test_a_check_input_of_another_rank_that_differs_restricts_the_artifact() -> None:
    report = tracehouse.check(
        nn.Conv1d(2, 2, 1), torch.ones(3, 2, 5), check_inputs=[torch.ones(2, 5)], budget_s=BUDGET_S
    )

    assert report.verdict is Verdict.RESTRICTED
