"""A trace into a shell has the same graph as a trace into torch's own module."""

from typing import Any

import pytest
import torch

from tests.tracehouse.check.targets import TOLERANCE
from tracehouse.check.graph_diff.canonical import canonicalize
from tracehouse.eager.call import bind
from tracehouse.eager.model import LoadedModel
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torchscript import trace
from tracehouse.torchscript.trace_shells import TraceShell

X = torch.arange(12.0).reshape(3, 4) / 7


class Shares(torch.nn.Module):
    """One layer under two names, a buffer, a buffer that is not saved, a parameter that is none, and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4, bias=False)
        self.again = self.first
        self.missing = None
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)])
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("shift", torch.tensor(1.0), persistent=False)
        self.register_parameter("none", None)
        self.plain = torch.tensor(3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.again(self.first(x)) * self.scale + self.shift + self.plain


class Exports(torch.nn.Module):
    """A part whose other method is compiled too, and is called by the trace."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    @torch.jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.twice(self.layer(x))


class Holds(torch.nn.Module):
    def __init__(self, part: torch.nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) + 1  # type: ignore[no-any-return]


def scripted() -> torch.nn.Module:
    return torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))


MODELS = {
    "shares": Shares,
    "exports": lambda: Holds(Exports()),
    "scripted": lambda: Holds(scripted()),
    "attends": lambda: Holds(torch.nn.TransformerEncoderLayer(4, 2, batch_first=True)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_is_that_of_a_trace_into_a_module(name: str) -> None:
    model = LoadedModel(MODELS[name]().eval())
    call, options = bind(model.module, "forward", "forward", (X,), {}), TraceOptions()
    traced = trace.trace(model, {"forward": call}, options, outputs={}, check=False, tolerance=TOLERANCE)

    again = trace.retrace(model, call, options, torch.no_grad(), gradients=False)

    graph, other = canonicalize(traced.module, "forward"), canonicalize(again.module, "forward")
    assert graph.computation == other.computation
    assert [step.frames[:1] for step in graph.steps] == [step.frames[:1] for step in other.steps]
    assert len(graph.steps) > 2


@pytest.mark.parametrize(("part", "is_plain"), [(torch.nn.ReLU(), True), (Exports(), False), (scripted(), False)])
def test_only_plain_submodules_are_left_bare(part: torch.nn.Module, is_plain: bool) -> None:
    """torch gives each of its modules the flag `training`, which no graph of a trace reads."""
    shell: Any = TraceShell(Holds(part))

    assert shell._c.hasattr("part")
    assert shell._c.hasattr("training") is not is_plain
