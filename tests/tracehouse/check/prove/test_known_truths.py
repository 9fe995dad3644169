"""A mask that eager leaves out, because it hides nothing, is the same to attention as one that is there."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])


def is_traced(tensor: Tensor) -> bool:
    """As transformers asks it."""
    return torch.jit.is_tracing() or isinstance(tensor, FakeTensor)


class Attends(nn.Module):
    """Attends without its mask where `leaves_out` says so of it, and never does so in a trace, as transformers do.

    It attends to what `change` makes of the rows of its table.
    """

    def __init__(
        self, leaves_out: Callable[[Tensor], Tensor], change: Callable[[Tensor], Tensor] = lambda x: x
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.leaves_out = leaves_out
        self.change = change

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x, shown = self.change(self.table(ids))[:, None], mask.to(dtype=torch.bool)
        if not is_traced(shown) and self.leaves_out(shown):
            return nn.functional.scaled_dot_product_attention(x, x, x)
        places = torch.arange(x.shape[2]) + 0
        seen = (places.new_ones((), dtype=torch.bool) & (places >= 0))[None, None, :, None]
        allowed = (seen & shown[:, None, None, :]).expand(x.shape[0], 1, x.shape[2], x.shape[2])
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=allowed)


def check(model: nn.Module, mask: Tensor = MASK) -> tracehouse.Report:
    dynamic = {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}}
    return tracehouse.check(model, (IDS, mask), dynamic=dynamic, budget_s=BUDGET_S)


def bases(report: tracehouse.Report) -> set[str]:
    return {region.basis for region in report.contract.method("forward").regions}


@pytest.mark.parametrize("mask", [MASK, torch.ones_like(MASK)], ids=["hides", "hides nothing"])
def test_a_mask_that_is_left_out_where_it_hides_nothing_is_proven(mask: Tensor) -> None:
    report = check(Attends(torch.all), mask)

    assert report.verdict is Verdict.VERIFIED
    assert bases(report) == {"proven"}


def gelu_by_hand(x: Tensor) -> Tensor:
    """As GPT-2 and ALBERT have it."""
    return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3.0))))


def test_a_whole_power_of_what_is_finite_is_no_nan() -> None:
    assert bases(check(Attends(torch.all, gelu_by_hand))) == {"proven"}


@pytest.mark.parametrize(
    "change", [lambda x: x.pow(0.5), lambda x: (x - x).pow(-1), lambda x: (x - 9.0) ** x], ids=["root", "-1", "of"]
)
def test_another_power_may_be_one(change: Callable[[Tensor], Tensor]) -> None:
    """Of a number below 0, a root is NaN; 1 / 0 is infinite, and infinity less infinity NaN."""
    assert "proven" not in bases(check(Attends(torch.all, change)))


@pytest.mark.parametrize("leaves_out", [torch.any, lambda shown: shown[:, 0].all()], ids=["any", "the first"])
def test_a_mask_that_is_left_out_where_it_hides_something_is_not(leaves_out: Callable[[Tensor], Tensor]) -> None:
    report = check(Attends(leaves_out))

    assert report.verdict is Verdict.REJECTED


class DividesBeforeItAttends(Attends):
    """Whose attention gets a NaN for some ids: 0 / 0."""

    def __init__(self) -> None:
        super().__init__(torch.all)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        away = (ids.sum(1) - 41).float()
        x = self.table(ids)[:, None] * (away / away)[:, None, None, None]
        shown = mask.to(dtype=torch.bool)
        if not is_traced(shown) and shown.all():
            return nn.functional.scaled_dot_product_attention(x, x, x)
        allowed = shown[:, None, None, :].expand(x.shape[0], 1, x.shape[2], x.shape[2])
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=allowed)


def test_attention_to_what_may_be_nan_is_not_the_same_without_a_mask() -> None:
    assert "proven" not in bases(check(DividesBeforeItAttends()))


class CountsInBytes(nn.Module):
    """Counts up to a number of which its integers hold none above 127."""

    def forward(self, x: Tensor) -> Tensor:
        last = torch.arange(x.shape[1] + 1, dtype=torch.int8)[-1:]
        return x * 2 if bool((last >= 0).all()) else x + 1


def test_what_counts_past_the_end_of_its_datatype_is_not_taken_as_never_negative() -> None:
    report = tracehouse.check(CountsInBytes(), (torch.ones(2, 6),), budget_s=BUDGET_S)

    assert [str(region) for region in report.contract.method("forward").regions] == ["batch 1 to 256"]


class AddsItsPlaces(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[1] * 1.0)


def test_a_range_that_ends_at_a_float_is_proven() -> None:
    report = tracehouse.check(AddsItsPlaces(), (torch.ones(2, 6),), budget_s=BUDGET_S)

    assert bases(report) == {"proven"}
