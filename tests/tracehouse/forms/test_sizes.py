"""What a graph may make of nothing: a fused form answers whatever was in the memory."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
import torch

from tests.tracehouse.forms.racing import calls_of
from tests.tracehouse.forms.test_rounding import FLOATS, IDS, archive
from tracehouse.forms import raced
from tracehouse.forms.sizes import find_emptying
from tracehouse.spec.raced_form import RacedForm

Compute = Callable[[Any, torch.Tensor], torch.Tensor]


@pytest.mark.parametrize(
    ("compute", "operator"),
    [
        (lambda own, x: own.layer(x)[x[:, 0] > 0].sum(0), "index"),
        (lambda own, x: own.layer(x).masked_select(x > 0).sum(), "masked_select"),
        (lambda own, x: own.layer(x)[1:], "slice"),
        (lambda own, x: own.layer(x)[:-1], "slice"),
        (lambda own, x: own.layer(x)[x.size(0) :], "slice"),
        (lambda own, x: own.layer(x)[: x.size(0) // 2], "slice"),
        (lambda own, x: own.layer(x).narrow(0, 0, x.size(0) - 2), "narrow"),
        (lambda own, x: own.layer(x).split([0, 2])[0], "split_with_sizes"),
        (lambda own, x: x.new_ones(x.size(0) - 2, 2) @ own.layer(x), "new_ones"),
        (lambda own, x: own.layer(x)[:1].expand(x.size(0) - 1, 4), "expand"),
        (lambda own, x: torch.nn.functional.pad(own.layer(x), (0, -2)), "pad"),
        (lambda own, x: own.layer(x) * torch.arange(x.size(1) - 4).sum(), "arange"),
        (lambda own, x: torch.where(x > 0)[0], "where"),
    ],
)
def test_what_may_be_empty_is_found(compute: Compute, operator: str) -> None:
    assert find_emptying(archive(compute, FLOATS)) == f"aten::{operator}"


@pytest.mark.parametrize(
    ("compute", "example"),
    [
        (lambda own, x: own.layer(x)[:, 0] + own.layer(x)[:, -1], FLOATS),
        (lambda own, x: own.layer(x)[-2:, :2] + own.layer(x)[: x.size(0), :2], FLOATS),
        (lambda own, x: own.layer(x)[:, own.places], FLOATS),
        (lambda own, x: own.layer(x).split(2, 1)[0] + own.layer(x).chunk(2, 1)[0], FLOATS),
        (lambda own, x: x.new_ones(x.size(0), 2).mT @ own.layer(x), FLOATS),
        (lambda own, x: own.layer(x)[:1].expand(x.size(0), -1).repeat(2, 1), FLOATS),
        (lambda own, x: torch.nn.functional.pad(own.layer(x), (0, 2)), FLOATS),
        (lambda own, ids: own.table(ids) + own.table(torch.arange(ids.size(1))), IDS),
    ],
)
def test_what_is_something_is_not(compute: Compute, example: torch.Tensor) -> None:
    assert find_emptying(archive(compute, example)) is None


class Products(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(q @ (k.mT @ k)))


def test_a_sum_of_nothing_is_0() -> None:
    """oneDNN's is whatever was in the memory."""
    q, k = torch.randn(4, 16), torch.randn(6, 16)
    file = BytesIO()
    torch.jit.save(torch.jit.trace(Products().eval(), (q, k)), file)
    file.seek(0)
    module = torch.jit.load(file)
    try:
        form: Any = raced.make(module, RacedForm.ONEDNN_FUSION, calls_of(q, k, names="q k"))
        with torch.inference_mode():
            for _ in range(3):
                form.forward(q, k)
            answers = [form.forward(q, k[:0]) for _ in range(30) if torch.full((16, 16), 7.0) is not None]
    finally:
        torch.jit.enable_onednn_fusion(False)

    with torch.inference_mode():
        expected = module(q, k[:0])
    assert all(torch.equal(one, expected) for one in answers)


def test_a_fused_form_is_made_of_nothing_that_may_be_empty() -> None:
    module = archive(lambda own, x: own.layer(x)[x[:, 0] > 0], FLOATS)

    with pytest.raises(raced.NoSuchForm, match="aten::index, which may give nothing"):
        raced.make(module, RacedForm.ONEDNN_FUSION, calls_of(FLOATS))
    raced.make(module, RacedForm.FREEZE, calls_of(FLOATS))
