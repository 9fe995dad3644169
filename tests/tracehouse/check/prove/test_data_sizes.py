"""Sizes that values decide: what holds for all of them is proven, and what follows from one of them is not."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0
ROWS = torch.tensor([[1.0, 2.0, 0.5], [-1.0, -3.0, 0.5], [0.5, 0.5, 1.0], [2.0, -1.0, 0.0]])
EDGES = torch.tensor([[0, 1, 2, 3, 1, 2], [1, 2, 3, 0, 1, 0]])


class Selects(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chosen = x.sum(1) > 0
        return x[chosen] * 2, torch.nonzero(chosen).squeeze(1), x.masked_select(x > 0).cumsum(0)


class Writes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[x > 0.5] = 0.0
        y[:, 0][x[:, 1] > 0] = 1.0
        return y


class Counts(nn.Module):
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        found, counts = torch.unique(ids, return_counts=True)
        return counts, torch.repeat_interleave(found, counts)


class AveragesEqualRows(nn.Module):
    """Averages over the rows that are equal when they are rounded, as a net of voxels does."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows, places, counts = torch.unique(x.floor(), dim=0, return_inverse=True, return_counts=True)
        sums = x.new_zeros(rows.shape).index_add_(0, places, x)
        return sums / counts[:, None], sums[places] - x


class CountsBins(nn.Module):
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weighted = torch.bincount(ids, weights=ids * 0.5)
        return torch.bincount(ids), torch.bincount(ids, minlength=10).cumsum(0), weighted * 2


class CountsUpToItsLargest(nn.Module):
    """Makes a mask of lengths, as long as the largest of them."""

    def forward(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(lengths.max(), device=lengths.device)
        return steps[None] < lengths[:, None], torch.arange(1, lengths.max() + 1) * 2


class NumbersWhatItRepeats(nn.Module):
    def forward(self, counts: Tensor) -> Tensor:
        owners = torch.repeat_interleave(torch.arange(counts.shape[0]), counts)
        return owners * 100 + torch.arange(owners.shape[0])


class LeavesWhenNothingIsSelected(nn.Module):
    """Leaves early without a row. The trace goes on, and computes nothing of nothing."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x.sum(1) > 0]
        if chosen.shape[0] == 0:
            return chosen
        return chosen * 2


class AddsLoops(nn.Module):
    """Adds a loop to each node of a graph, and asks whether there is an edge, as torch_geometric's GATConv does."""

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        nodes = torch.arange(x.shape[0])
        edges = torch.cat([edges[:, edges[0] != edges[1]], torch.stack([nodes, nodes])], 1)
        if edges.shape[1] == 0:
            return x
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


class KeepsItsCount(nn.Module):
    """Divides by a count, which the trace keeps as it was on the example."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (int(x[x.sum(1) > 0].shape[0]) + 1)


class CountsUpToItsExamplesLargest(nn.Module):
    def forward(self, lengths: Tensor) -> Tensor:
        return torch.arange(int(lengths.max()))[None] < lengths[:, None]


class KeepsItsBins(nn.Module):
    """Divides by the number of bins, which the trace keeps as it was on the example."""

    def forward(self, ids: Tensor) -> Tensor:
        return torch.bincount(ids, minlength=3) / int(torch.bincount(ids).shape[0])


class AsksForTwo(nn.Module):
    """Takes another way if fewer than two rows are selected."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x.sum(1) > 0]
        return x.sum(0) - 1 if chosen.shape[0] < 2 else x.sum(0)


class TakesOneForMany(nn.Module):
    """Counts the only row that is selected twice, which no other count of rows shows."""

    def forward(self, x: Tensor) -> Tensor:
        chosen = x[x.sum(1) > 0]
        return x + (chosen * 2 if chosen.shape[0] == 1 else chosen.sum(0))


@pytest.mark.parametrize(
    ("model", "example", "regions"),
    [
        (Selects(), (ROWS,), ["batch 1 to 256, n0 1 to 1024"]),
        (Writes(), (ROWS,), ["batch 1 to 256, n0 2 to 1024"]),
        (Counts(), (EDGES[0],), ["n0 1 to 256"]),
        (AveragesEqualRows(), (ROWS,), ["batch 1 to 256, n0 1 to 1024"]),
        (CountsBins(), (EDGES[0],), ["n0 1 to 256"]),
        (CountsUpToItsLargest(), (EDGES[0],), ["n0 1 to 256"]),
        (NumbersWhatItRepeats(), (EDGES[0],), ["n0 1 to 256"]),
        (LeavesWhenNothingIsSelected(), (ROWS,), ["batch 1 to 256, n0 1 to 1024"]),
        (AddsLoops(), (ROWS, EDGES), ["batch 1 to 1024, n0 1 to 1024, seq 0 to 1024"]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_size_that_values_decide_is_proven_for_all_values(
    model: nn.Module, example: tuple[Tensor, ...], regions: list[str]
) -> None:
    report = tracehouse.check(model, example, budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    proven = [region for region in report.contract.method("forward").regions if region.basis == "proven"]
    assert [str(region) for region in proven] == regions


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (KeepsItsCount(), ROWS),
        (AsksForTwo(), ROWS),
        (TakesOneForMany(), ROWS),
        (CountsUpToItsExamplesLargest(), EDGES[0]),
        (KeepsItsBins(), EDGES[0]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_follows_from_a_size_that_values_decide_is_not_proven(model: nn.Module, example: Tensor) -> None:
    report = tracehouse.check(model, (example,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
