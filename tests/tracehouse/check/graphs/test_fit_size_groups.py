"""Size groups fit the artifact: where it is right only at each second size, or where dims change together."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tests.corpus.specimen import CORPUS, Specimen
from tests.tracehouse.check.targets import make_retraceable, make_target
from tracehouse.check.graphs.find_size_groups import find_size_groups
from tracehouse.check.graphs.size_oracle import SizeOracle
from tracehouse.check.report import Report
from tracehouse.check.size_groups import Groups
from tracehouse.contract.dims import Linear
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import bind
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ContractViolation
from tracehouse.findings.verdict import Verdict
from tracehouse.torch_values.tensors import pack

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0  # no machine is too slow for it


class PadsAndDoubles(nn.Module):
    """Odd sides take another way than even ones, and the trace keeps that of even ones."""

    def forward(self, x: Tensor) -> Tensor:
        half = nn.functional.avg_pool2d(x, 2)
        if x.shape[-1] % 2 or x.shape[-2] % 2:
            return nn.functional.interpolate(half, size=x.shape[-2:]) + x
        return nn.functional.interpolate(half, scale_factor=2.0) + x


class TakesEachFourth(nn.Module):
    """Lengths that are no multiple of four take another way. The model takes no remainder that symbols show."""

    def forward(self, x: Tensor) -> Tensor:
        if int(x.shape[1]) & 3 == 0:
            return x.cumsum(1)
        return -x


class SqueezesDistances(nn.Module):
    """One row on either side has distances of another rank in the model alone."""

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        distances = (x[:, None] - others[None]).square().sum(-1)
        if 1 in distances.shape:
            return distances.squeeze() + 1
        return distances


class CountsItsRows(nn.Module):
    """Keeps the number of rows of each of its inputs in the trace."""

    def forward(self, x: Tensor, others: Tensor) -> Tensor:
        return sum((x[row] for row in range(len(x))), others[len(others) - 1])


def groups_of(module: nn.Module, *args: Tensor) -> Groups:
    return find_size_groups(make_retraceable(LoadedModel(module.eval()), *args), {}, Budget(BUDGET_S))


def groups_of_specimen(side: str, name: str) -> Groups:
    specimen = Specimen(CORPUS / side / f"{name}.py")
    return groups_of(specimen.fresh(), *specimen.example[0])


def checked(side: str, name: str) -> tuple[Specimen, Report]:
    specimen = Specimen(CORPUS / side / f"{name}.py")
    return specimen, tracehouse.check(specimen.fresh(), specimen.example[0], budget_s=BUDGET_S)


def accepts(report: Report, module: nn.Module, args: tuple[Any, ...]) -> bool:
    try:
        report.contract.method("forward").accept(pack(bind(module, "forward", "forward", args, {}).tensors))
    except ContractViolation:
        return False
    return True


def test_a_mask_that_the_model_mends_is_as_long_as_past_and_new_tokens() -> None:
    groups = groups_of_specimen("wrong", "cache_step_that_mends_its_mask")
    assert groups.shapes["x"] == ("batch", "seq", 4)
    assert groups.shapes["keys"] == groups.shapes["values"] == ("batch", "n0", 4)
    assert groups.shapes["mask"] in (("batch", "seq+n0"), ("batch", "n0+seq"))
    assert "n0" in groups.may_be_empty
    assert groups.apart


def test_keys_of_several_layers_share_their_past_and_their_batch_with_a_mask() -> None:
    groups = groups_of_specimen("right", "decoder_step_of_stacked_caches")
    assert groups.shapes["ids"] == ("batch", "seq")
    assert groups.shapes["keys"] == groups.shapes["values"] == (2, "batch", 2, "n0", 4)
    assert groups.shapes["mask"] in (("batch", "seq+n0"), ("batch", "n0+seq"))
    assert groups.apart == []


def test_a_contract_of_joined_dims_answers_those_and_says_that_the_trace_is_wrong_apart() -> None:
    case, report = checked("wrong", "cache_step_that_mends_its_mask")
    module, step = case.fresh(), case.module.step
    assert report.verdict is Verdict.RESTRICTED
    assert any("change together" in one.detail and one.line in case.faults for one in report.findings)
    for args in (step(3, 12, 13)[0], step(1, 0, 1)[0]):
        assert accepts(report, module, args)
        for answer, expected in zip(report.artifact(*args), module(*args), strict=True):
            assert torch.allclose(answer, expected, atol=1e-5)
    assert not accepts(report, module, step(2, 12, 8)[0])
    assert not accepts(report, module, step(2, 7, 9)[0])


def test_joined_dims_hide_no_fault_that_they_have_together() -> None:
    case, report = checked("wrong", "cache_step_with_a_window")
    assert accepts(report, case.fresh(), case.module.step(2, 23)[0])
    assert not accepts(report, case.fresh(), case.module.step(2, 24)[0])
    assert not accepts(report, case.fresh(), case.module.step(1, 60)[0])


def test_a_batch_that_the_artifact_alone_needs_is_told() -> None:
    case, report = checked("wrong", "rows_paired_by_number")
    assert report.verdict is Verdict.RESTRICTED
    assert accepts(report, case.fresh(), case.module.pair(9, 9)[0])
    assert not accepts(report, case.fresh(), case.module.pair(6, 1)[0])


def test_sides_have_the_step_at_which_the_artifact_is_right() -> None:
    groups = groups_of(PadsAndDoubles(), torch.randn(2, 3, 8, 8))
    assert groups.steps == {"height": 2, "width": 2}
    assert groups.between == {"height": [9], "width": [9]}


def test_a_step_that_no_symbol_shows_is_found_by_calls() -> None:
    groups = groups_of(TakesEachFourth(), torch.randn(2, 12))
    assert groups.steps == {"n0": 4}


def test_a_contract_with_a_step_refuses_what_lies_between() -> None:
    report = tracehouse.check(PadsAndDoubles().eval(), (torch.randn(2, 3, 8, 8),), budget_s=BUDGET_S)
    assert report.verdict is Verdict.RESTRICTED
    assert any(one.kind == "baked-size" for one in report.findings)
    for sides, accepted in {(12, 20): True, (2, 2): True, (9, 8): False, (8, 11): False}.items():
        assert accepts(report, PadsAndDoubles(), (torch.randn(1, 3, *sides),)) is accepted


def test_dims_that_are_wrong_at_size_one_alone_stay_apart() -> None:
    groups = groups_of(SqueezesDistances(), torch.randn(4, 3), torch.randn(4, 3))
    assert groups.shapes["x"][0] != groups.shapes["others"][0]


def test_what_neither_a_step_nor_another_dim_mends_stays_as_it_is() -> None:
    groups = groups_of(CountsItsRows(), torch.randn(5, 3), torch.randn(4, 3))
    assert groups.shapes["x"][0] in groups.symbols
    assert groups.steps == {}
    assert groups.apart == []


def test_sizes_at_which_a_dim_would_be_negative_are_not_wrong() -> None:
    target = make_target(torch.nn.Identity(), torch.ones(2, 5))
    (name,) = target.call.tensors
    oracle = SizeOracle(target, Budget(120))
    expressions = {(name, 0): Linear((("rows", 1),)), (name, 1): Linear((("rows", 1),), -3)}

    assert not oracle.is_wrong(expressions, {"rows": 1})
