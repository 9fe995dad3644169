"""Which archives make a NaN of finite numbers, where forms may hide it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.tracehouse.forms.test_rounding import FLOATS, IDS, archive
from tracehouse.forms.finite import find_nan_source

Compute = Callable[[Any, torch.Tensor], torch.Tensor]


@pytest.mark.parametrize(
    ("compute", "example"),
    [
        (lambda own, x: torch.relu(own.layer(x)).softmax(1), FLOATS),
        (lambda own, x: functional.gelu(own.layer(x) + (1 - x) * -1e4), FLOATS),
        (lambda own, x: functional.layer_norm(own.layer(x), (4,)), FLOATS),
        (lambda own, x: functional.instance_norm(own.layer(x)[:, :, None].expand(-1, -1, 2)), FLOATS),
        (lambda own, x: own.norm(x) + functional.batch_norm(x, None, None, training=True), FLOATS),
        (lambda own, x: functional.scaled_dot_product_attention(x, own.layer(x), x), FLOATS),
        (lambda own, x: own.layer(x) / 2 + own.layer(x) ** 2 + own.layer(x).mean(1, keepdim=True), FLOATS),
        (lambda own, x: own.layer(x).view(x.size(0) // 2, -1), FLOATS),
        (lambda own, x: functional.adaptive_avg_pool1d(own.layer(x)[None], 2), FLOATS),
        (lambda own, x: functional.interpolate(own.layer(x)[None], scale_factor=2.0), FLOATS),
        (lambda own, x: functional.max_pool1d(own.layer(x)[None], 3, padding=1), FLOATS),
        (lambda own, x: functional.softplus(functional.elu(own.layer(x))) + functional.celu(x), FLOATS),
        (lambda own, x: functional.relu_(own.layer(x)).add_(x)[:, :2].mean(), FLOATS),
        (lambda own, x: torch.cat([own.places.expand(x.size(0), -1) * 1.0, own.layer(x)]).mean(0), FLOATS),
        (lambda own, x: (x - 0.5) / own.norm.running_var, FLOATS),
        (lambda own, x: x * torch.sigmoid(own.layer(x)) * torch.tanh(x) * own.norm(x), FLOATS),
        (lambda own, ids: own.table(ids) * (ids != 0).unsqueeze(-1).float(), IDS),
        (lambda own, ids: own.table(torch.arange(ids.size(1))).mean(0), IDS),
        (lambda own, ids: (own.table(ids) @ own.table(ids).mT).masked_fill((ids == 0)[:, None], -1e9), IDS),
    ],
)
def test_finite_numbers_stay_finite(compute: Compute, example: torch.Tensor) -> None:
    assert find_nan_source(archive(compute, example)) is None


@pytest.mark.parametrize(
    ("compute", "source"),
    [
        (lambda own, x: own.layer(x) / x.sum(), "aten::div"),
        (lambda own, x: own.layer(x) / (own.places * 1.0), "aten::div"),
        (lambda own, x: own.layer(x) / 0.0, "aten::div"),
        (lambda own, x: own.layer(x).log(), "aten::log"),
        (lambda own, x: own.layer(x).sqrt(), "aten::sqrt"),
        (lambda own, x: own.layer(x).exp(), "aten::exp"),
        (lambda own, x: own.layer(x) ** 0.5, "aten::pow"),
        (lambda own, x: own.layer(x) ** -1, "aten::pow"),
        (lambda own, x: own.layer(x).std(1), "aten::std"),
        (lambda own, x: functional.layer_norm(own.layer(x), (4,), eps=0.0), "aten::layer_norm"),
        (lambda own, x: functional.normalize(own.layer(x)), "aten::linalg_vector_norm"),
        (lambda own, x: functional.group_norm(own.layer(x), 1, eps=1e-50), "aten::group_norm"),
        (lambda own, x: functional.batch_norm(x, own.norm.running_mean, x[0]), "aten::batch_norm"),
        (
            lambda own, x: functional.instance_norm(x[:, :, None], x[0], x[0], use_input_stats=False),
            "aten::instance_norm",
        ),
        (lambda own, x: functional.batch_norm(x, own.norm.running_mean, -own.norm.running_var), "aten::batch_norm"),
        (lambda own, x: own.layer(x).half().float(), "aten::to"),
        (lambda own, x: own.layer(x).sum(1, dtype=torch.half), "aten::sum"),
        (lambda own, x: torch.zeros(2, 4, dtype=torch.half).copy_(own.layer(x)), "aten::zeros"),
        (lambda own, x: own.layer(x) * torch.tensor([1.0], dtype=torch.half), "stands for infinity"),
        (lambda own, x: own.layer(x) * 2**62, "stands for infinity"),
        (lambda own, x: own.layer(x) * torch.tensor([2**62, 1, 1, 1]), "stands for infinity"),
        (lambda own, x: (x + own.layer(x) * torch.tensor(1j)).abs(), "stands for infinity"),
        (lambda own, x: functional.softplus(own.layer(x), threshold=1000), "aten::softplus"),
        (lambda own, x: functional.softplus(own.layer(x), beta=0), "aten::softplus"),
        (lambda own, x: functional.celu(own.layer(x), -1.0), "aten::celu"),
        (lambda own, x: torch.ops.aten.elu(own.layer(x), 1.0, 1.0, -1.0), "aten::elu"),
        (lambda own, x: functional.max_pool1d(own.layer(x)[None], 2, padding=1, dilation=3), "aten::max_pool1d"),
        (lambda own, x: own.layer(x)[x > 0].mean(), "aten::mean of what aten::index may make empty"),
        (lambda own, x: own.layer(x)[:, 2:].mean(), "aten::mean of what aten::slice may make empty"),
        (lambda own, x: functional.adaptive_avg_pool1d(own.layer(x)[None, :, -3:2], 1), "aten::slice may make empty"),
        (lambda own, x: (own.layer(x) ** 3) ** 3, "aten::pow of numbers that may be huge"),
        (lambda own, x: own.layer(x).square().square().square(), "aten::square of numbers that may be huge"),
        (lambda own, x: own.layer(x) @ x.mT @ x @ x.mT @ x, "aten::matmul of numbers that may be huge"),
        (lambda own, x: torch.einsum("ij,ij,ij,ij,ij->i", x, x, x, x, x), "aten::einsum of numbers that may be huge"),
        (lambda own, x: ((x > 0) * -1e10 * 1e10 * 1e10).softmax(1), "aten::mul of numbers that may be huge"),
        (lambda own, x: own.layer(x) / 1e-9 / 1e-9 * x / 1e-9, "aten::mul of numbers that may be huge"),
        (lambda own, x: torch.ones(2, 4).mul_(x).mul_(x).mul_(x).mul_(x).mul_(x), "aten::mul_ of numbers that may"),
        (lambda own, x: own.norm.running_var.copy_(x[0]), "aten::copy_ on what the archive holds"),
        (lambda own, x: own.norm.running_var[:2].mul_(x[0, :2]), "aten::mul_ on what the archive holds"),
        (lambda own, x: own.layer(x).masked_fill(x > 0, float("-inf")).softmax(1), "stands for infinity"),
        (lambda own, x: own.layer(x).masked_fill(x > 0, torch.finfo(torch.float32).min), "stands for infinity"),
        (lambda own, x: own.layer(x) * torch.tensor([float("inf"), 1, 1, 1]), "stands for infinity"),
        (
            lambda own, x: functional.scaled_dot_product_attention(x, own.layer(x), x, attn_mask=x[:, :2] > 0),
            "aten::scaled_dot_product_attention",
        ),
    ],
)
def test_what_may_make_a_nan_is_found(compute: Compute, source: str) -> None:
    found = find_nan_source(archive(compute, FLOATS))

    assert found is not None
    assert source in found


def test_numbers_that_a_view_was_given_may_be_huge() -> None:
    def cube(own: Any, x: torch.Tensor) -> torch.Tensor:
        cubes = torch.ones(2, 4)
        cubes[0] = x[0] ** 3
        return cubes**3

    found = find_nan_source(archive(cube, FLOATS))

    assert found is not None
    assert "aten::pow of numbers that may be huge" in found


def test_a_weight_that_is_not_finite_is_found() -> None:
    def fill(own: Any, x: torch.Tensor) -> torch.Tensor:
        own.layer.weight.data[0, 0] = float("inf")
        return own.layer(x)  # type: ignore[no-any-return]

    found = find_nan_source(archive(fill, FLOATS))

    assert found is not None
    assert "stands for infinity" in found
