"""Containers among the arguments that the model changes: it is called with its own each time."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")


class TakesItsDictApart(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        batch.pop("labels")
        x = batch.pop("x")
        return x * 2 + sum(batch.values())


class EmptiesItsList(nn.Module):
    def forward(self, parts: list[Tensor]) -> Tensor:
        x = parts.pop()
        while parts:
            x = x * 2 + parts.pop()
        return x


def test_a_model_may_take_its_dict_apart() -> None:
    batch = {"x": torch.randn(2, 3), "y": torch.randn(2, 3), "labels": torch.ones(2)}
    report = tracehouse.check(TakesItsDictApart(), ({**batch},))

    assert report.verdict is Verdict.VERIFIED
    torch.testing.assert_close(report.artifact({**batch}), batch["x"] * 2 + batch["y"])


def test_a_model_may_empty_its_list() -> None:
    first, second = torch.randn(2, 3), torch.randn(2, 3)
    report = tracehouse.check(EmptiesItsList(), ([first, second],))

    assert report.verdict is Verdict.VERIFIED
    torch.testing.assert_close(report.artifact([first, second]), second * 2 + first)
