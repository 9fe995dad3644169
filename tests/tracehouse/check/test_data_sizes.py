"""Sizes that follow from values, such as how many ids differ, where the model asks about them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tests.models.reads_beside_what_values_decide import AsksForItsSumWithoutHalves
from tracehouse.check.report import Report
from tracehouse.errors import ContractViolation
from tracehouse.findings.kinds import Kind
from tracehouse.findings.verdict import Verdict
from tracehouse.torch_values.tensors import pack

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
FOUR_IDS = torch.tensor([[1, 2], [3, 4]])


class HalvesWhatVaries(nn.Module):
    """Takes another way for over six different ids: more than the example has elements."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 3)

    def forward(self, ids: Tensor) -> Any:
        found, places = torch.unique(ids, return_inverse=True)
        rows = self.table(found)
        if found.numel() > 6:
            rows = rows / 2
        return rows[places]


class HalvesWhatVariesInLongRows(HalvesWhatVaries):
    """Asks at other lengths than the example's alone."""

    def forward(self, ids: Tensor) -> Any:
        rows = self.table(ids)
        return rows / 2 if ids.shape[1] > 4 and torch.unique(ids).numel() > 6 else rows


class SaysWhatVaries(HalvesWhatVaries):
    """Asks, and computes the same whatever the answer is."""

    def forward(self, ids: Tensor) -> Any:
        found, places = torch.unique(ids, return_inverse=True)
        if found.numel() > 6:
            print("many ids")
        return self.table(found)[places]


def is_accepted(report: Report, given: Tensor) -> bool:
    method = report.contract.method("forward")
    try:
        method.accept(pack({method.inputs[0].name: given}))
    except ContractViolation:
        return False
    return True


@pytest.mark.parametrize("kind", [HalvesWhatVaries, HalvesWhatVariesInLongRows])
def test_what_is_accepted_is_right_for_other_values_too(kind: type[nn.Module]) -> None:
    model = kind().eval()
    report = tracehouse.check(model, (FOUR_IDS,), budget_s=BUDGET_S)

    for rows, columns in ((2, 2), (17, 1), (2, 5), (65, 2), (17, 17)):
        ids = torch.arange(rows * columns).remainder(10).reshape(rows, columns)
        if is_accepted(report, ids):
            torch.testing.assert_close(report.artifact(ids), model(ids))
    assert is_accepted(report, FOUR_IDS)


def test_calls_show_sizes_where_the_question_decides_nothing() -> None:
    report = tracehouse.check(SaysWhatVaries(), (FOUR_IDS,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    assert is_accepted(report, torch.ones(17, 17, dtype=torch.int64))


def count_halves(x: Tensor) -> int:
    """How many elements are 0.5: a tensor while it is traced, a number else."""
    return x[x == 0.5].shape[0]


class AddsHalvesToItsRows(nn.Module):
    """Takes the other way if there are halves, which raises unless they are as many as its rows."""

    def forward(self, x: Tensor) -> Tensor:
        halves = x[x == 0.5]
        if halves.shape[0] < 2:
            return x * 2
        return x * 3 + (halves + x[:, 0]).sum()


class CatchesWhatItAsserts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            assert count_halves(x) == 0
        except AssertionError:
            return x * 3
        return x * 2


class Doubles(nn.Module):
    """Asserts, and nothing catches that."""

    def forward(self, x: Tensor) -> Tensor:
        assert count_halves(x) == 0
        return x * 2


class CatchesWhatItsPartAsserts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Doubles()

    def forward(self, x: Tensor) -> Any:
        try:
            return self.part(x)
        except AssertionError:
            return x * 3


@pytest.mark.parametrize("kind", [AddsHalvesToItsRows, CatchesWhatItAsserts, CatchesWhatItsPartAsserts])
def test_a_size_that_only_the_trace_reads_is_not_harmless_because_calls_agree(kind: type[nn.Module]) -> None:
    """Calls of the eager model read no tensor there, which looks as if each of them read another value."""
    model, x = kind().eval(), torch.arange(24.0).reshape(6, 4)
    report = tracehouse.check(model, (x,), budget_s=BUDGET_S)

    halves = x.index_put((torch.arange(6), torch.ones(6, dtype=torch.int64)), torch.tensor(0.5))
    assert not torch.equal(report.artifact(halves), model(halves)), "the artifact is wrong there"
    assert report.verdict is Verdict.REJECTED
    assert Kind.BAKED_VALUE in {one.kind for one in report.findings}


def test_a_size_that_the_model_asserts_is_harmless() -> None:
    assert tracehouse.check(Doubles(), (torch.randn(6, 4),), budget_s=BUDGET_S).verdict is Verdict.VERIFIED


def test_a_value_that_is_read_at_some_sizes_which_values_decide_is_not_passed_over() -> None:
    """Symbols for such sizes stand for two and more, and there the model reads nothing."""
    model, x = AsksForItsSumWithoutHalves().eval(), torch.rand(6, 4)
    report = tracehouse.check(model, (x,), budget_s=BUDGET_S)

    negative = -torch.ones(8, 4)
    assert not torch.equal(report.artifact(negative), model(negative)), "the artifact is wrong there"
    assert report.verdict is Verdict.REJECTED or not is_accepted(report, negative)
