"""Functions whose results `functools.lru_cache` keeps: sizes are followed into them, as far as no call changes what
another one gets from a cache."""

import runpy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import tracehouse
from tests.models import keeps_what_functions_give as models
from tracehouse.contract.regions import Region
from tracehouse.findings.verdict import Verdict

BUDGET_S = 120.0


def draw(rows: int, length: int) -> torch.Tensor:
    return torch.randn(rows, length, 4, generator=torch.Generator().manual_seed(rows * 1000 + length))


@pytest.mark.parametrize("make", [models.MasksByLength, models.KeepsTablesOfSeveralKinds])
def test_a_table_that_a_cache_keeps_for_each_size_is_proven_at_all_sizes(make: Callable[[], nn.Module]) -> None:
    report = tracehouse.check(make().eval(), (draw(2, 8),), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    [region] = report.contract.method("forward").regions
    assert (str(region), region.basis) == ("batch 1 to 256, seq 1 to 1024, n0 1 to 1024", "proven")


@pytest.mark.parametrize("make", models.WRONG, ids=lambda one: one.__name__)
def test_what_calls_before_change_is_not_proven(make: Callable[[], nn.Module]) -> None:
    report = tracehouse.check(make().eval(), (draw(2, 8),), budget_s=BUDGET_S)

    *_, (rows, length) = models.WRONG[make]
    regions = report.contract.method("forward").regions if report.verdict is not Verdict.REJECTED else []
    proven = [one for one in regions if one.basis == "proven" and claims(one, "batch", rows)]
    assert not any(claims(one, "seq", length) for one in proven)


def claims(region: Region, symbol: str, size: int) -> bool:
    """Whether a region has this size; one without the symbol says nothing about it."""
    return symbol not in region.spans or any(size in span for span in region.spans[symbol])


@pytest.mark.parametrize("name", [one.__name__ for one in models.WRONG])
def test_the_models_answer_by_what_was_called_before(name: str) -> None:
    *before, last = models.WRONG[getattr(models, name)]
    expected = import_anew(name)(draw(*last))
    module = import_anew(name)
    for sizes in before:
        module(draw(*sizes) * 2)

    assert not torch.equal(module(draw(*last)), expected)


def import_anew(name: str) -> nn.Module:
    """Return a model of a new module of Python's, whose caches are empty."""
    module: nn.Module = runpy.run_path(models.__file__)[name]()
    return module
