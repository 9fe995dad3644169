"""Canonical graphs: what two traces have in common, and the lines at which they part."""

from collections.abc import Callable

import pytest
import torch

from tests.tracehouse.check.targets import make_retraceable
from tracehouse.check.graph_diff.canonical import CanonicalGraph, GraphDivergence, canonicalize, find_divergences
from tracehouse.check.target import Target
from tracehouse.eager.model import LoadedModel

Load = Callable[..., LoadedModel]


def graph(target: Target, *shape: int) -> CanonicalGraph:
    call = target.call.with_tensors({"x": torch.randn(shape)}) if shape else target.call
    return target.trace_again(call)


def parted(target: Target, *shape: int) -> list[GraphDivergence]:
    return find_divergences(graph(target), graph(target, *shape))


def test_two_traces_of_one_example_compute_the_same(load: Load) -> None:
    for name in ("bakes_a_size", "loops_over_its_rows", "makes_numbers_of_sizes"):
        target = make_retraceable(load(name), torch.randn(4, 4))
        assert find_divergences(graph(target), graph(target)) == []
        assert graph(target).computation == graph(target).computation


def test_the_artifact_keeps_its_graph(load: Load) -> None:
    target = make_retraceable(load("makes_numbers_of_sizes"), torch.randn(2, 5))
    before = str(target.artifact.graph)
    canonicalize(target.artifact, "forward")
    assert str(target.artifact.graph) == before


def test_a_constant_is_blamed_on_the_line_that_made_it(load: Load) -> None:
    target = make_retraceable(load("makes_numbers_of_sizes"), torch.randn(2, 5))
    (parting,) = parted(target, 2, 6)
    assert (parting.kind, parting.was, parting.is_) == ("const", "5", "6")
    assert parting.line is not None
    assert parting.line.source.startswith("y = x.reshape(")
    assert parting.origin is not None
    assert parting.origin.source == "columns = int(x.shape[1])"


def test_what_a_loop_repeats_is_blamed_on_the_loop(load: Load) -> None:
    target = make_retraceable(load("loops_over_its_rows"), torch.randn(2, 5))
    for columns in (7, 3, 1):
        parting = parted(target, 2, columns)[0]
        assert parting.kind == "struct"
        assert parting.repeated
        assert parting.origin is not None
        assert parting.origin.source == "for column in range(x.shape[1]):"


def test_what_a_branch_leaves_out_is_blamed_on_its_condition(load: Load) -> None:
    target = make_retraceable(load("makes_numbers_of_sizes"), torch.randn(2, 5))
    (parting,) = parted(target, 101, 5)
    assert parting.origin is not None
    assert parting.origin.source == "if x.shape[0] > 100:"


def test_tensors_that_a_trace_keeps_are_compared_by_their_values(load: Load) -> None:
    target = make_retraceable(load("bakes_a_size"), torch.randn(5, 2))
    partings = parted(target, 6, 2)
    assert partings[0].origin is not None
    assert partings[0].origin.source == "weights = torch.tensor([1.0 / length] * length)"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_may_differ_where_their_paths_do_not() -> None:
    graphs = [canonicalize(torch.jit.trace(torch.nn.Linear(3, 2), torch.randn(1, 3)), "forward") for _ in range(2)]
    assert find_divergences(*graphs) == []
    assert graphs[0].steps[0].operands == ["input 1", ".weight", ".bias"]


def test_ten_thousand_nodes_of_which_one_is_more_are_told_apart() -> None:
    def adding(times: int) -> CanonicalGraph:
        def add(x: torch.Tensor) -> torch.Tensor:
            for _ in range(times):
                x = x + 1
            return x * 2

        module = torch.jit.trace_module(_Calling(add), {"forward": (torch.zeros(1),)}, check_trace=False)
        return canonicalize(module, "forward")

    assert [parting.kind for parting in find_divergences(adding(10_000), adding(10_001))] == ["struct"]


class _Calling(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)
