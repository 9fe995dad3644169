"""Row flow: the operators of an artifact say whether rows may meet, also where no drawn value shows it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tracehouse.check.targets import make_target
from tracehouse.check.batch.certificate import NotBatchable, certify
from tracehouse.check.size_groups import Groups
from tracehouse.contract.contract import Batch
from tracehouse.differential.budget import Budget

BUDGET_S = 120
Does = Callable[["Model", torch.Tensor], Any]


class Model(nn.Module):
    """A model whose forward calls `does`. Its input has rows of 4 steps with 6 numbers each."""

    def __init__(self, does: Does) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 4)
        self.bags = nn.EmbeddingBag(100, 4)
        self.linear = nn.Linear(6, 6)
        self.convolution = nn.Conv1d(4, 5, 3)
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(6, 5, batch_first=True)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
        self.norms = nn.Sequential(nn.BatchNorm1d(4), nn.LayerNorm(6), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4))
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.does = does

    def forward(self, x: torch.Tensor) -> Any:
        return self.does(self, x)


def certify_rows(does: Does) -> Batch | NotBatchable:
    torch.manual_seed(0)
    model = Model(does)
    groups = Groups({"x": ("batch", 4, 6)}, {"batch": 2}, {})
    return certify(make_target(model, torch.randn(2, 4, 6)), groups, 8, Budget(BUDGET_S))


def drops_what_is_over_capacity(model: Model, x: torch.Tensor) -> torch.Tensor:
    expert = functional.one_hot(x.sum((1, 2)).gt(0).long(), 2)
    place = (expert.cumsum(0) * expert).sum(-1)
    return x * (place <= 100)[:, None, None]


def counts_ids(model: Model, x: torch.Tensor) -> torch.Tensor:
    ids = x.abs().mul(10).long().clamp(0, 99).flatten(1)
    return ids / (torch.bincount(ids.flatten(), minlength=100)[ids] - 500).clamp(min=1)


def subtracts_a_large_first_row(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x - (x[:1] > 1e30) * x[:1]


def follows_a_running_maximum(model: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.maximum(x, torch.where(x.cummax(0).values > 1e30, 1e30, -torch.inf))


def suppresses_duplicates(model: Model, x: torch.Tensor) -> torch.Tensor:
    flat = x.flatten(1)
    return flat * ~(torch.cdist(flat, flat) < 1e-30).tril(-1).any(1, keepdim=True)


def scales_by_a_merged_dim(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x + (x.flatten(0, 1).amax(0) > 1e30)


def writes_the_first_row(model: Model, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[0] = x[0].clamp(-1e30, 1e30)
    return x


def looks_up_other_rows(model: Model, x: torch.Tensor) -> torch.Tensor:
    other = (x[:, 0, 0] > 1e30).long()
    return x + 0 * x[other]


def sorts_rows_of_equal_sums(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x + (x.sum((1, 2)).sort().values[:, None, None] > 1e30)


@pytest.mark.parametrize(
    "does",
    [
        drops_what_is_over_capacity,
        counts_ids,
        subtracts_a_large_first_row,
        follows_a_running_maximum,
        suppresses_duplicates,
        scales_by_a_merged_dim,
        writes_the_first_row,
        looks_up_other_rows,
        sorts_rows_of_equal_sums,
        lambda model, x: x + (x.mean(0) > 1e30),
        lambda model, x: x.roll(1, 0).clamp(1e30, 1e31) + x,
        lambda model, x: x + (torch.arange(x.shape[0])[:, None, None] > 1000),
        lambda model, x: x * (1 + 1e-12 * x.shape[0]),
        lambda model, x: x + (x.flatten()[: x.shape[0], None, None] > 1e30),
        lambda model, x: x + (torch.einsum("btc,dtc->bd", x, x).amin(1)[:, None, None] > 1e30),
    ],
)
def test_rows_that_rarely_see_one_another_are_refused(does: Does) -> None:
    assert isinstance(certify_rows(does), NotBatchable)


def fills_where_negative(model: Model, x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[x < 0] = 0
    x[:, 1] += 1
    x.view(-1).mul_(2)
    return x


def writes_into_zeros(model: Model, x: torch.Tensor) -> torch.Tensor:
    padded = x.new_zeros(x.shape[0], x.shape[1] + 2, 6)
    padded[:, 1:-1] = x
    return padded


def takes_the_step_of_each_row(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x[torch.arange(x.shape[0]), x.sum((1, 2)).gt(0).long()]


def embeds(model: Model, x: torch.Tensor) -> torch.Tensor:
    ids = x.abs().mul(10).long().clamp(0, 99)
    return torch.cat([model.table(ids[..., 0]).sum(1), model.bags(ids[..., 0])], 1)


def folds_heads(model: Model, x: torch.Tensor) -> torch.Tensor:
    heads = x.view(x.shape[0], 4, 2, 3).transpose(1, 2).reshape(-1, 4, 3)
    return (heads @ heads.transpose(1, 2)).softmax(-1).view(x.shape[0], 2, 4, 4)


def encodes_two_together(model: Model, x: torch.Tensor) -> torch.Tensor:
    one, other = model.linear(torch.cat([x, x.flip(1)], 0)).chunk(2, 0)
    return one * other


@pytest.mark.parametrize(
    "does",
    [
        lambda model, x: model.linear(x).relu().sum((1, 2)),
        lambda model, x: model.norms(x),
        lambda model, x: model.convolution(x),
        lambda model, x: model.lstm(x)[0],
        lambda model, x: model.gru(x)[1][-1],
        lambda model, x: model.attention(x, x, x)[0],
        lambda model, x: model.encoder(x),
        lambda model, x: torch.cat([model.token.expand(x.shape[0], -1, -1), x], 1),
        lambda model, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda model, x: x.sort(1).values.cumsum(-1).topk(2, 1).values,
        lambda model, x: functional.one_hot(x.argmax(-1), 6),
        lambda model, x: torch.stft(x.flatten(1), 8, return_complex=False, window=torch.ones(8)),
        lambda model, x: torch.einsum("btc,bsc->bts", x, x),
        fills_where_negative,
        writes_into_zeros,
        takes_the_step_of_each_row,
        embeds,
        folds_heads,
        encodes_two_together,
    ],
)
def test_rows_that_never_see_one_another_are_certified(does: Does) -> None:
    assert isinstance(certify_rows(does), Batch)


def test_the_reason_names_the_operator() -> None:
    refused = certify_rows(follows_a_running_maximum)

    assert isinstance(refused, NotBatchable)
    assert "aten.cummax" in refused.reason


def test_a_script_that_reads_a_number_out_of_its_rows_is_refused() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.max() > 1e30):
                return x - x.mean(0)
            return x

    groups = Groups({"x": ("batch", 4, 6)}, {"batch": 2}, {})
    target = make_target(Branches(), torch.randn(2, 4, 6), scripted=True)

    assert isinstance(certify(target, groups, 8, Budget(BUDGET_S)), NotBatchable)
