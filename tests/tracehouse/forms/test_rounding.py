"""Archives in which rounding decides have no other form; all others may."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.tracehouse.forms.racing import calls_of
from tracehouse.forms import raced
from tracehouse.forms.rounding import find_step
from tracehouse.spec.raced_form import RacedForm

FLOATS, IDS = torch.ones(2, 4), torch.tensor([[1, 2, 0, 0]])


class Computes(torch.nn.Module):
    def __init__(self, compute: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.compute = compute
        self.layer, self.table = torch.nn.Linear(4, 4), torch.nn.Embedding(5, 4)
        self.norm, self.attention = torch.nn.BatchNorm1d(4), torch.nn.MultiheadAttention(4, 2)
        self.register_buffer("places", torch.arange(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.compute(self, x)


def filled(values: torch.Tensor) -> torch.Tensor:
    made = torch.zeros(2, 4)
    made[:, :2] = values[:, :2]
    return made


def archive(compute: Callable[[Any, torch.Tensor], torch.Tensor], example: torch.Tensor) -> torch.jit.ScriptModule:
    """As a runner has it: what was saved says no datatypes any more."""
    file = BytesIO()
    torch.jit.save(torch.jit.trace(Computes(compute).eval(), example), file)
    file.seek(0)
    loaded: torch.jit.ScriptModule = torch.jit.load(file)
    return loaded


@pytest.mark.parametrize(
    ("compute", "operator"),
    [
        (lambda own, x: own.layer(x).argmax(1), "argmax"),
        (lambda own, x: own.layer(x).max(1)[1], "max"),
        (lambda own, x: own.layer(x).topk(2)[1], "topk"),
        (lambda own, x: own.layer(x).sort(1)[1], "sort"),
        (lambda own, x: (own.layer(x) > 0).float(), "gt"),
        (lambda own, x: torch.round(own.layer(x)), "round"),
        (lambda own, x: own.layer(x).mul(8).floor_(), "floor_"),
        (lambda own, x: torch.div(own.layer(x), 2, rounding_mode="floor"), "div"),
        (lambda own, x: own.layer(x).long(), "to"),
        (lambda own, x: functional.hardshrink(own.layer(x)), "hardshrink"),
        (lambda own, x: own.layer(x).type_as(own.places), "type_as"),
        (lambda own, x: torch.zeros(2, 4, dtype=torch.int64).copy_(own.layer(x)), "copy_"),
        (lambda own, x: torch.arange(4).fill_(own.layer(x)[0, 0]), "fill_"),
        (lambda own, x: own.layer(x).detach().sum(1, dtype=torch.int64), "sum"),
        (lambda own, x: torch.where(own.layer(x))[0], "where"),
        (lambda own, x: torch.isposinf(own.layer(x)), "isposinf"),
        (lambda own, x: own.layer(x).angle(), "angle"),
        (lambda own, x: torch.copysign(x, own.layer(x)), "copysign"),
        (lambda own, x: torch.frexp(own.layer(x))[1], "frexp"),
        (lambda own, x: torch.isin(own.layer(x), x), "isin"),
        (lambda own, x: own.layer(x).detach().histogram(4)[0], "histogram"),
        (lambda own, x: own.layer(x).norm(p=0), "linalg_vector_norm"),
        (lambda own, x: torch.dist(own.layer(x), x, p=0), "dist"),
        (lambda own, x: torch.cdist(own.layer(x), x, p=0.0), "cdist"),
        (lambda own, x: torch.linalg.lu(own.layer(x)[:, :2])[0], "linalg_lu"),
        (lambda own, x: torch.linalg.slogdet(own.layer(x)[:, :2])[0], "linalg_slogdet"),
        (lambda own, x: torch.nan_to_num(1 / own.layer(x).relu(), posinf=0.0), "nan_to_num"),
        (lambda own, x: torch.linalg.svd(own.layer(x))[0], "linalg_svd"),
        (lambda own, x: filled(own.layer(x)) > 0, "gt"),
        (
            lambda own, x: functional.grid_sample(
                x[None, None], own.layer(x)[None, None, :, :2], mode="nearest", align_corners=False
            ),
            "grid_sampler",
        ),
    ],
)
def test_where_rounding_decides_there_is_one_form(
    compute: Callable[[Any, torch.Tensor], torch.Tensor], operator: str
) -> None:
    module = archive(compute, FLOATS)

    assert find_step(module) == f"aten::{operator}"
    with pytest.raises(raced.NoSuchForm, match="rounding decides"):
        raced.make(module, RacedForm.FREEZE, calls_of(FLOATS))


@pytest.mark.parametrize(
    ("compute", "example"),
    [
        (lambda own, x: torch.relu(own.layer(x)).softmax(1), FLOATS),
        (lambda own, x: own.layer(x).max(1)[0] + own.layer(x).max(), FLOATS),
        (lambda own, x: own.layer(x).sort(1)[0].clamp(0, 1), FLOATS),
        (lambda own, x: torch.div(own.layer(x), 2).double(), FLOATS),
        (lambda own, x: own.layer(x) * (x > 0), FLOATS),
        (lambda own, x: filled(own.layer(x)), FLOATS),
        (lambda own, x: torch.relu_(own.layer(x)) * torch.zeros_like(own.layer(x), dtype=torch.int64), FLOATS),
        (lambda own, x: functional.max_pool1d(own.layer(x)[None], 2), FLOATS),
        (lambda own, x: own.layer(x).norm(dim=1) + torch.cdist(own.layer(x), x), FLOATS),
        (lambda own, x: own.layer(x).view(-1, torch.div(x.size(1), 2, rounding_mode="trunc")), FLOATS),
        (lambda own, x: own.attention(own.layer(x), x, x)[0], FLOATS),
        (lambda own, x: functional.gelu(own.layer(x) + (1 - x) * -1e4), FLOATS),
        (lambda own, ids: own.table(ids) * (ids != 0).unsqueeze(-1).float(), IDS),
        (lambda own, ids: own.table(torch.cumsum((ids != 0).int(), 1).long() * (ids != 0)), IDS),
        (lambda own, ids: own.table(own.places[: ids.size(1)]) + own.table(ids), IDS),
        (lambda own, ids: (own.table(ids) @ own.table(ids).mT).masked_fill((ids == 0)[:, None], -1e9), IDS),
    ],
)
def test_where_it_only_changes_the_last_digits_other_forms_are_made(
    compute: Callable[[Any, torch.Tensor], torch.Tensor], example: torch.Tensor
) -> None:
    module = archive(compute, example)

    assert find_step(module) is None
    assert torch.allclose(raced.make(module, RacedForm.FREEZE, calls_of(example)).forward(example), module(example))
