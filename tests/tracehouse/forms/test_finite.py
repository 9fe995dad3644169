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
        (lambda own, x: functional.batch_norm(x, own.places * 1.0, own.places * 1.0), FLOATS),
        (lambda own, x: functional.scaled_dot_product_attention(x, own.layer(x), x), FLOATS),
        (lambda own, x: own.layer(x) / 2 + own.layer(x) ** 2 + own.layer(x).mean(1, keepdim=True), FLOATS),
        (lambda own, x: own.layer(x).view(x.size(0) // 2, -1), FLOATS),
        (lambda own, x: functional.adaptive_avg_pool1d(own.layer(x)[None], 2), FLOATS),
        (lambda own, x: functional.interpolate(own.layer(x)[None], scale_factor=2.0), FLOATS),
        (lambda own, ids: own.table(ids) * (ids != 0).unsqueeze(-1).float(), IDS),
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
        (lambda own, x: own.layer(x).half().float(), "aten::to"),
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


def test_a_weight_that_is_not_finite_is_found() -> None:
    def fill(own: Any, x: torch.Tensor) -> torch.Tensor:
        own.layer.weight.data[0, 0] = float("inf")
        return own.layer(x)  # type: ignore[no-any-return]

    found = find_nan_source(archive(fill, FLOATS))

    assert found is not None
    assert "stands for infinity" in found
