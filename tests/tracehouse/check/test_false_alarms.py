"""Models whose traces are right and look wrong are not rejected. Similar models whose traces are wrong still are."""

import pytest
import torch
from torch import Tensor, nn

import tracehouse
from tracehouse.check.probe import probing
from tracehouse.differential.call_limits import CallLimit, CallLimits
from tracehouse.findings.kinds import speaks_against
from tracehouse.findings.verdict import Verdict

pytestmark = pytest.mark.usefixtures("without_other_datatypes")

BUDGET_S = 120.0

SIGNAL = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
PATCHES = torch.rand(2, 1, 11, 11, generator=torch.Generator().manual_seed(2))
PLACES = torch.tensor([3, 0, 2, 1])


class EndsInConvolution(nn.Module):
    """Branches on its batch as the decoders of diffusion models do. The tracer cannot record it operator by operator,
    because its output comes from a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Conv1d(4, 3, 3, padding=1)  # in two dimensions, a proof of three sizes takes ten times as long

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] * x.numel() >= 2**31:
            x = x.contiguous()
        output: Tensor = self.last(x)
        return output


class EndsInConvolutionAfterValue(EndsInConvolution):
    """Branches on a size that follows from values."""

    def forward(self, x: Tensor) -> Tensor:
        if x[x > 0].numel() > x.numel() // 2:
            x = -x
        output: Tensor = self.last(x)
        return output


class TakesRowsByNumber(nn.Module):
    """Compares the size of rows that were taken by integers, which is the size of these integers."""

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        taken = x[places]
        if taken.shape[0] == places.shape[0]:
            return taken * 2
        return taken


class TakesRowsByMask(nn.Module):
    """Compares the size of rows that were taken by a mask, which follows from values."""

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        taken = x[places > 1]
        if taken.shape[0] == 2:
            return taken * 2
        return taken


class KeepsItsGrid(nn.Module):
    """Makes a grid anew if the size of its input is another one than before, as the heads of detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(4, 4, 1)
        self.shape: torch.Size | None = None
        self.grid = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if self.shape != x.shape:
            self.grid = torch.arange(x.shape[-1]).type_as(x)
            self.shape = x.shape
        return (x + self.grid).relu()


class StandardisesPatches(nn.Module):
    """Divides by the spread of its input, which it computes otherwise in a trace, as kornia's descriptors do.

    Where all values are equal, all that is left to describe is rounding.
    """

    def __init__(self) -> None:
        super().__init__()
        self.describe = nn.Conv2d(1, 16, 11, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 11:
            raise ValueError("patches are 11 by 11")
        dims = (-3, -2, -1)
        if torch.jit.is_tracing():
            mean, spread = x.mean(dims, keepdim=True), x.std(dims, keepdim=True)
        else:
            spread, mean = torch.std_mean(x, dims, keepdim=True)
        return nn.functional.normalize(self.describe((x - mean) / (spread + 1e-6)).flatten(1), dim=1)


class MarksFlatPatches(nn.Module):
    """Marks patches whose values are all equal, and never in a trace. Its answer jumps where its artifact's stays."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 11:
            raise ValueError("patches are 11 by 11")
        spread = x.std((-3, -2, -1), keepdim=True)
        return x * 2 + (0.0 if torch.jit.is_tracing() else 1.0) * ((spread == 0) & (x.abs().amax() > 0))


class LeavesFullMaskOut(nn.Module):
    """Computes without its mask if the mask hides nothing, and never does so in a trace, as transformers do."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        try:
            if not torch.jit.is_tracing() and mask.all():
                return (x + mask * 0.0).softmax(-1) * 2
        except ValueError:
            return x
        return x.masked_fill(mask == 0, float("-inf")).softmax(-1) * 2


class AddsItsLoops(nn.Module):
    """Asks whether edges are left of which each node adds one, as graph networks do; and checks a size."""

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        if x.shape[1] != 4:
            raise ValueError("nodes have four features")
        edges = torch.cat([places[places != 0], torch.arange(x.shape[0])])
        if edges.numel() == 0:
            return x
        return x.index_add(0, edges, x[edges])


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (AddsItsLoops(), (ROWS, PLACES)),
        (LeavesFullMaskOut(), (ROWS, torch.tensor([[1, 1, 1, 0]]).repeat(4, 1))),
        (EndsInConvolution(), (SIGNAL,)),
        (TakesRowsByNumber(), (ROWS, PLACES)),
        (KeepsItsGrid(), (IMAGE,)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_trace_that_is_right_is_verified_and_open(model: nn.Module, example: tuple[Tensor, ...]) -> None:
    report = tracehouse.check(model.eval(), example, budget_s=BUDGET_S)

    assert [one.kind for one in report.findings if speaks_against(one.kind)] == []
    assert report.verdict is Verdict.VERIFIED
    assert report.contract.method("forward").symbols


def test_an_answer_that_consists_of_rounding_on_a_probe_is_reported_and_does_not_reject(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing, "CALL_LIMITS", CallLimits(probes=CallLimit(120.0, 20)))  # however busy the machine is

    report = tracehouse.check(StandardisesPatches().eval(), (PATCHES,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.VERIFIED
    (decided,) = [one for one in report.findings if one.kind == "rounding-decides"]
    assert decided.evidence["case"] == "probe: all equal"


def test_an_answer_that_jumps_where_the_artifact_is_steady_is_no_rounding() -> None:
    report = tracehouse.check(MarksFlatPatches(), (PATCHES,), budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
    assert [one.kind for one in report.findings if one.kind == "rounding-decides"] == []


@pytest.mark.parametrize(
    ("model", "example"),
    [(EndsInConvolutionAfterValue(), (SIGNAL,)), (TakesRowsByMask(), (ROWS, PLACES))],
    ids=lambda one: type(one).__name__,
)
def test_a_branch_on_a_size_that_follows_from_values_is_rejected(model: nn.Module, example: tuple[Tensor, ...]) -> None:
    report = tracehouse.check(model.eval(), example, budget_s=BUDGET_S)

    assert report.verdict is Verdict.REJECTED
