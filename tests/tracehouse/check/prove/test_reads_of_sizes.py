"""A truth that Python reads of a tensor made from sizes alone: it hinders a proof only where another answer matters."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0


class Transformer(nn.Module):
    """torch asks whether the target's mask is the causal one. Where words are masked too, either answer does."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 8)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True, norm_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.size(1)
        output: Tensor = self.transformer(
            self.words(source),
            self.words(target),
            tgt_mask=torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1),
            src_key_padding_mask=source.eq(0),
            tgt_key_padding_mask=target.eq(0),
            memory_key_padding_mask=source.eq(0),
        )
        return output


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.ones(x.shape[1]).sum() > 20 else x * 1


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.ones(x.shape[1]).sum() > 20:
            raise ValueError("more than twenty")
        return x * 2


class DoublesByBoth(nn.Module):
    """Either answer alone changes nothing."""

    def forward(self, x: Tensor) -> Tensor:
        counted = torch.ones(x.shape[1]).sum()
        is_long = bool(counted > 20)
        is_even_longer = bool(counted > 21)
        return x * 2 if is_long and is_even_longer else x * 1


def test_a_truth_of_sizes_that_changes_nothing_hinders_no_proof() -> None:
    source, target = torch.randint(1, 40, (2, 6)), torch.randint(1, 40, (2, 5))
    source[1, 4:], target[1, 3:] = 0, 0

    report = tracehouse.check(Transformer().eval(), (source, target), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    [region] = report.contract.method("forward").regions
    assert (str(region), region.basis) == ("batch 1 to 256, seq 1 to 1024, n0 1 to 1024", "proven")


@pytest.mark.parametrize("model", [Doubles(), Raises(), DoublesByBoth()], ids=lambda one: type(one).__name__)
def test_a_truth_of_sizes_that_matters_is_not_proven_beyond(model: nn.Module) -> None:
    report = tracehouse.check(model, (torch.randn(2, 8),), budget_s=BUDGET_S)

    regions = report.contract.method("forward").regions
    assert not any(
        span.high > 20 for region in regions if region.basis == "proven" for span in region.spans.get("n0", [])
    )
    assert not any(25 in span for region in regions for span in region.spans.get("n0", []))
