"""Which archives have only operators that other runtimes compute as torch does."""

import pytest
import torch
from torch.nn import functional

from tests.tracehouse.forms.test_finite import Compute
from tests.tracehouse.forms.test_rounding import FLOATS, IDS, archive
from tracehouse.forms.ported_operators import find_unported


@pytest.mark.parametrize(
    "compute",
    [
        lambda own, x: functional.gelu(own.norm(own.layer(x))).softmax(1),
        lambda own, x: own.layer(x).view(x.size(0), x.size(1) // 2, -1).transpose(1, 2).flatten(1),
        lambda own, x: own.layer(x) * 0.5 + own.layer(x) / 3 - x[:, :1],
        lambda own, x: own.attention(own.layer(x), x, x, need_weights=False)[0],
        lambda own, x: functional.scaled_dot_product_attention(x, own.layer(x), x),
        lambda own, x: functional.layer_norm(torch.cat([x, own.layer(x)]), (4,)).mean(0),
        lambda own, x: functional.max_pool1d(functional.pad(own.layer(x)[None], (1, 1)), 2),
        lambda own, x: functional.dropout(own.layer(x).relu_().add_(x), training=False),
    ],
)
def test_what_is_ported(compute: Compute) -> None:
    assert find_unported(archive(compute, FLOATS)) is None


@pytest.mark.parametrize(
    ("compute", "operator"),
    [
        (lambda own, x: own.layer(x) * (x > 0), "aten::gt"),
        (lambda own, x: own.layer(x)[:, own.places], "no FP32"),
        (lambda own, x: own.layer(x).double(), "aten::to"),
        (lambda own, x: own.layer(x).sum(1, dtype=torch.float64), "aten::sum"),
        (lambda own, x: torch.add(own.layer(x), x, alpha=2), "aten::add"),
        (lambda own, x: own.layer(x).sort(1)[0], "aten::sort"),
        (lambda own, x: own.layer(x).exp(), "aten::exp"),
        (lambda own, x: functional.elu(own.layer(x)), "aten::elu"),
        (lambda own, x: functional.max_pool1d(own.layer(x)[None], 3, ceil_mode=True), "aten::max_pool1d"),
        (lambda own, x: functional.avg_pool1d(own.layer(x)[None], 3, ceil_mode=True), "aten::avg_pool1d"),
        (lambda own, x: functional.adaptive_avg_pool1d(own.layer(x)[None], 3), "aten::adaptive_avg_pool1d"),
        (lambda own, x: functional.dropout(own.layer(x)), "aten::dropout"),
        (lambda own, x: functional.scaled_dot_product_attention(x, x, x, attn_mask=x[:, :2]), "aten::scaled_dot"),
        (lambda own, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), "aten::scaled_dot"),
        (lambda own, x: torch.relu_(x) + own.layer(x), "aten::relu_"),
        (lambda own, x: changed_through_a_view(own.layer(x)), "aten::mul_"),
        (lambda own, x: own.layer.bias * 2 + torch.zeros(4), "aten::zeros"),
        (lambda own, x: (own.layer(x), own.places * 2)[1], "no FP32"),
        (lambda own, x: own.layer.bias * 2, "an output that has no numbers of an input"),
        (lambda own, x: [own.layer(x), x], "an output that is a list"),
    ],
)
def test_what_is_not_known_to_be_computed_alike_is_found(compute: Compute, operator: str) -> None:
    found = find_unported(archive(compute, FLOATS))

    assert found is not None
    assert operator in found


def changed_through_a_view(x: torch.Tensor) -> torch.Tensor:
    x.view(-1).mul_(2)
    return x


def test_a_table_of_words_is_not_ported() -> None:
    """Other runtimes answer an index that it does not have."""
    assert find_unported(archive(lambda own, ids: own.table(ids), IDS)) == "aten::embedding"


@pytest.mark.parametrize(("mean", "is_ported"), [(99.0, True), (-101.0, False)])
def test_a_batch_norm_far_from_its_mean_is_not_ported(mean: float, is_ported: bool) -> None:
    """It is computed as a product and a sum: of numbers close to the mean, a hundredth was lost at 990 deviations."""
    held = torch.full((4,), mean / 10), torch.full((4,), 0.01)

    found = find_unported(archive(lambda own, x: functional.batch_norm(x, *held), FLOATS))

    assert found == (None if is_ported else "aten::batch_norm")
