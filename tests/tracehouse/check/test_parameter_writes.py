"""Parameters that a call writes to where torch does not see it: the artifact keeps those of the trace."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.findings.verdict import Verdict


class FastWeights(nn.Module):
    """Makes the weights of a layer of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.hyper, self.layer = nn.Linear(4, 8), nn.Linear(4, 2)

    def weights_for(self, x: Tensor) -> Tensor:
        weights: Tensor = self.hyper(x.mean(0)).view(2, 4).detach()
        return weights


class Assigns(FastWeights):
    def forward(self, x: Tensor) -> Tensor:
        self.layer.weight.data = self.weights_for(x)
        answer: Tensor = self.layer(x)
        return answer


class CopiesInto(FastWeights):
    def forward(self, x: Tensor) -> Tensor:
        self.layer.weight.data.copy_(self.weights_for(x))
        answer: Tensor = self.layer(x)
        return answer


class WritesByNumpy(FastWeights):
    def forward(self, x: Tensor) -> Tensor:
        self.layer.weight.detach().numpy()[:] = self.weights_for(x).numpy()
        answer: Tensor = self.layer(x)
        return answer


class HandsOver(FastWeights):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weights_for(x), self.layer.bias)


@pytest.mark.parametrize("model", [Assigns(), CopiesInto(), WritesByNumpy()], ids=lambda one: type(one).__name__)
def test_a_write_that_no_trace_has_rejects(model: nn.Module) -> None:
    report = tracehouse.check(model.eval(), (torch.randn(2, 4),))
    assert report.verdict is Verdict.REJECTED
    assert any(one.kind == "hidden-state" and "layer.weight" in str(one.evidence) for one in report.findings)


def test_weights_that_are_handed_over_are_right() -> None:
    assert tracehouse.check(HandsOver().eval(), (torch.randn(2, 4),)).verdict is Verdict.VERIFIED


def test_weights_that_an_operator_keeps_to_a_norm_are_right() -> None:
    model = nn.Embedding(10, 4, max_norm=0.5).eval()
    assert tracehouse.check(model, (torch.tensor([1, 2, 3]),)).verdict is Verdict.VERIFIED
