"""Certificates: which artifacts answer several rows as they answer each alone."""

import time
from collections.abc import Callable
from dataclasses import replace
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

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([[3, 9, 5], [1, 2, 7]])
MASK = torch.ones(2, 3, dtype=torch.int64)
ROWS = Groups({"x": ("batch", 3)}, {"batch": 2}, {})


class Model(nn.Module):
    """A model whose forward calls `does`."""

    def __init__(self, does: Callable[..., Any]) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 4)
        self.layer = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(3)
        self.does = does

    def forward(self, x: torch.Tensor) -> Any:
        return self.does(self, x)


class OfTwo(Model):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.does(self, x, y)


def certify_rows(
    does: Callable[..., Any], *args: torch.Tensor, groups: Groups = ROWS, up_to: int = 8, **options: Any
) -> Batch | NotBatchable:
    module = (OfTwo if len(args) == 2 else Model)(does)
    return certify(make_target(module, *(args or (X,))), groups, up_to, Budget(20), **options)


def test_rows_of_a_linear_layer_are_certified_up_to_the_largest_number_tried() -> None:
    batch = certify_rows(lambda model, x: {"y": model.layer(x)}, up_to=20)

    assert batch == Batch(symbol="batch", up_to=20, inputs={"x": 0}, outputs={"output.y": 0})


def test_rows_may_stand_along_another_dim() -> None:
    batch = certify_rows(
        lambda model, x: (x * 2, x.sum(0)), X, groups=Groups({"x": (2, "batch")}, {"batch": 3}, {})
    )  # fmt: skip

    assert batch == Batch(symbol="batch", up_to=8, inputs={"x": 1}, outputs={"output.0": 1, "output.1": 0})


def test_a_convolution_with_a_norm_in_eval_mode_is_certified() -> None:
    images = torch.randn(1, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    groups = Groups({"input": ("batch", 3, 8, 8)}, {"batch": 1}, {})

    assert isinstance(certify(make_target(model, images), groups, 8, Budget(20)), Batch)


def test_attention_with_a_mask_is_certified() -> None:
    def attends(model: Model, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = model.table(ids)
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None].bool())

    groups = Groups({"x": ("batch", 3), "y": ("batch", 3)}, {"batch": 2}, {})

    assert certify_rows(attends, IDS, MASK, groups=groups, bounds={"x": (0, 99)}) == Batch(
        symbol="batch", up_to=8, inputs={"x": 0, "y": 0}, outputs={"output": 0}
    )


def test_the_foremost_dim_is_the_batch_where_two_could_be() -> None:
    batch = certify_rows(lambda model, x: x * 2, groups=Groups({"x": ("b", "a")}, {"a": 3, "b": 2}, {}))

    assert isinstance(batch, Batch)
    assert batch.symbol == "b"


def leaks_a_little(model: Model, x: torch.Tensor) -> torch.Tensor:
    return x + 1e-9 * x.mean()


def quantises(model: Model, x: torch.Tensor) -> torch.Tensor:
    scale = x.abs().max() / 127
    return (x / scale).round() * scale


@pytest.mark.parametrize(
    "does",
    [
        lambda model, x: x - x.mean(0),
        lambda model, x: x.softmax(0),
        lambda model, x: x.cumsum(0),
        lambda model, x: x.flip(0),
        lambda model, x: x + torch.arange(x.shape[0])[:, None],
        lambda model, x: functional.batch_norm(x, None, None, training=True),
        lambda model, x: x.sort(0).values,
        lambda model, x: x @ x.T @ x,
        lambda model, x: torch.rand_like(x) + x,
        leaks_a_little,
        quantises,
        lambda model, x: (x, x.sum()),
        lambda model, x: x.repeat(2, 1),
        lambda model, x: x.flatten(),
        lambda model, x: x @ x.T,
        lambda model, x: x[0],
    ],
)
def test_rows_that_see_one_another_are_refused(does: Callable[..., Any]) -> None:
    assert isinstance(certify_rows(does), NotBatchable)


@pytest.mark.parametrize(
    "does",
    [
        lambda model, x: model.table(x.sort(0).values),
        lambda model, x: model.table(x) * (x == x.max())[..., None],
        lambda model, x: model.table(x - x.min()),
        lambda model, x: functional.pad(model.table(x), (0, 0, 0, 1)) + x.float().mean(),
    ],
)
def test_ids_that_see_one_another_are_refused(does: Callable[..., Any]) -> None:
    assert isinstance(certify_rows(does, IDS), NotBatchable)


def test_an_answer_as_long_as_the_longest_row_is_refused() -> None:
    groups = Groups({"x": ("batch", 3), "y": ("batch",)}, {"batch": 2}, {})

    def cut(model: Model, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])
        kept = places[places < lengths.max()]
        return x.index_select(1, kept)

    assert isinstance(certify_rows(cut, X, torch.tensor([3, 3]), groups=groups), NotBatchable)


def test_the_reason_names_what_differs() -> None:
    refused = certify_rows(lambda model, x: (x, x.sum()))

    assert isinstance(refused, NotBatchable)
    assert "'output.1' has no rows" in refused.reason


def test_an_input_without_rows_is_named() -> None:
    groups = Groups({"x": ("batch", 3), "y": (3,)}, {"batch": 2}, {})
    refused = certify_rows(lambda model, x, y: x * y, X, torch.ones(3), groups=groups)

    assert isinstance(refused, NotBatchable)
    assert "the same 'y'" in refused.reason
    assert certify_rows(lambda model, x: x, groups=Groups({"x": (2, 3)}, {}, {})) == NotBatchable(
        "no size of an input may vary"
    )


def test_a_model_that_takes_no_single_row_is_refused() -> None:
    def pairs(model: Model, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] > 1
        return x * 2

    assert isinstance(certify_rows(pairs), NotBatchable)


def test_a_script_whose_rows_depend_from_seven_on_is_certified_up_to_six() -> None:
    batch = certify(make_target(MeansOfMany(), X, scripted=True), ROWS, 16, Budget(20))

    assert isinstance(batch, Batch)
    assert batch.up_to == 6


@pytest.mark.parametrize(("up_to", "depend_from", "certified"), [
    (32, 100, 32), (32, 20, 16), (32, 16, 7), (32, 7, 3), (8, 100, 8), (8, 8, 7), (5, 100, 5), (2, 100, 2),
])  # fmt: skip
def test_a_trace_is_certified_for_the_largest_tested_number_that_does(
    up_to: int, depend_from: int, certified: int
) -> None:
    """A kernel that chooses by the number of rows has a script's branch here, which no record of operators shows."""
    target = replace(make_target(MeansOfMany(depend_from - 1), X, scripted=True), form="traced")

    batch = certify(target, ROWS, up_to, Budget(20))

    assert isinstance(batch, Batch)
    assert batch.up_to == certified


def test_each_number_that_is_tested_is_asked_whatever_larger_ones_do() -> None:
    target = replace(make_target(MeansOfSixteen(), X, scripted=True), form="traced")

    batch = certify(target, ROWS, 32, Budget(20))

    assert isinstance(batch, Batch)
    assert batch.up_to == 7


class MeansOfSixteen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 16:
            return x - x.mean(0)
        return x


class MeansOfMany(nn.Module):
    def __init__(self, most: int = 6) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > self.most:
            return x - x.mean(0)
        return x


def test_without_time_nothing_is_certified_and_that_is_reported() -> None:
    budget = Budget(0)

    assert isinstance(certify(make_target(Model(lambda model, x: x), X), ROWS, 8, budget), NotBatchable)
    assert budget.left_out() == ["whether rows along batch see one another was not tested"]


def test_a_model_that_sleeps_on_more_rows_is_refused_in_time() -> None:
    def sleeps(model: Model, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            time.sleep(60)
        return x * 2

    assert isinstance(certify(make_target(Model(sleeps), X), ROWS, 8, Budget(1)), NotBatchable)


def test_rows_that_see_one_another_in_eager_alone_are_refused() -> None:
    def otherwise_when_traced(model: Model, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.jit.is_tracing() else x - x.mean(0)

    assert isinstance(certify_rows(otherwise_when_traced), NotBatchable)
