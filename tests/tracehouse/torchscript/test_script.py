"""Scripting: what torch's compiler says most often comes out with a remedy of its own."""

from typing import Any

import pytest
import torch
from torch import nn

from tracehouse.eager.call import bind
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ScriptingFailed
from tracehouse.torchscript.script import script

FACTOR = 3
Tensor = torch.Tensor


class IndexesLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x: Tensor) -> Any:
        for index in range(len(self.layers)):
            x = self.layers[index](x)
        return x


class KeepsAPlainList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x: Tensor) -> Any:
        return self.layers[0](x)


class KeepsALambda(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice = lambda x: x * 2

    def forward(self, x: Tensor) -> Any:
        return self.twice(x)  # type: ignore[no-untyped-call]


class ReadsAGlobal(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x * FACTOR


class AssignsInOneBranch(nn.Module):
    def forward(self, x: Tensor) -> Any:
        if bool(x.sum() > 0):
            y = x
        return y


class UnpacksAShape(nn.Module):
    def forward(self, x: Tensor) -> Any:
        first, *_ = x.shape
        return x * first


class FillsAListOfNumbers(nn.Module):
    def forward(self, x: Tensor) -> Any:
        sizes = []
        sizes.append(1)
        return x


class CallsItsBase(ReadsAGlobal):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x)


class AssignsANewAttribute(nn.Module):
    def forward(self, x: Tensor) -> Any:
        self.last = x
        return x


class Filters(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.stack([row for row in x if bool(row.sum() > 0)])


class DividesASize(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.repeat(1, x.shape[1] / 2)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (IndexesLayers, "for layer in"),
        (KeepsAPlainList, "nn.ModuleList"),
        (KeepsALambda, "no lambda"),
        (ReadsAGlobal, "attribute of the module"),
        (AssignsInOneBranch, "before the `if`"),
        (UnpacksAShape, "x.shape[0]"),
        (FillsAListOfNumbers, "List[int]"),
        (CallsItsBase, "super()"),
        (AssignsANewAttribute, "__init__"),
        (Filters, "is_scripting"),
        (DividesASize, "signatures"),
    ],
)
def test_what_the_compiler_often_says_has_a_remedy_of_its_own(model: type[nn.Module], word: str) -> None:
    loaded = LoadedModel(model())
    call = bind(loaded.module, "forward", "forward", (torch.ones(2, 4),), {})

    with pytest.raises(ScriptingFailed) as refused:
        script(loaded, {"forward": call})

    assert word in refused.value.facts["remedy"]
