"""Printouts: text and nodes of every method and submodule, with the user's lines."""

from collections.abc import Callable

import pytest
import torch

from service.domain.artifact import Printout
from tests.tracing.conftest import Told, read_printouts, spec, tensor
from workers.tracing import printouts

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0]])


def printed(told: Told) -> dict[tuple[str, str, str], Printout]:
    return {(printout.submodule, printout.method, printout.kind): printout for printout in told.printouts}


def test_each_method_and_submodule_has_its_three_printouts(run: Run) -> None:
    methods = {"forward": {"example_inputs": [X]}, "encode": {"example_inputs": [X]}}
    shown = printed(run(spec("two_methods", methods=methods)))

    kinds = {"graph", "inlined_graph", "code"}
    for submodule, method in [("", "forward"), ("", "encode"), ("encoder", "forward"), ("decoder", "forward")]:
        assert {kind for of, named, kind in shown if (of, named) == (submodule, method)} == kinds


def test_a_node_has_its_operator_values_types_scope_and_line(run: Run) -> None:
    shown = printed(run(spec("linear", example_inputs=[X])))
    graph = shown["", "forward", "inlined_graph"]

    (linear,) = [node for node in graph.nodes if node.operator == "aten::linear"]
    assert (linear.file, linear.line, linear.source) == ("linear.py", 10, "return self.layer(x)")
    assert linear.scope == "layer"
    assert linear.types == ["Float(1, 3)"]
    assert linear.outputs == graph.outputs
    assert graph.inputs[1] == "x"
    assert linear.inputs[0] == "x"


def test_code_is_torchscript(run: Run) -> None:
    code = printed(run(spec("linear", example_inputs=[X])))["", "forward", "code"]

    assert code.text.startswith("def forward(self,\n    x: Tensor) -> Tensor:")
    assert code.nodes == []


def test_the_blocks_of_scripted_parts_are_among_the_nodes(run: Run) -> None:
    graph = printed(run(spec("scripted_part", example_inputs=[X])))["", "forward", "inlined_graph"]
    operators = [node.operator for node in graph.nodes]

    assert operators.index("prim::If") < operators.index("aten::zeros_like")


def test_no_text_shows_this_machines_paths(run: Run) -> None:
    assert not any("site-packages" in printout.text for printout in run(spec("linear", example_inputs=[X])).printouts)


def test_what_is_over_the_limit_is_left_out_and_says_so(activations: torch.jit.ScriptModule) -> None:
    taken = read_printouts(printouts.take(activations, max_bytes=1000))

    assert len(taken) == 9
    assert taken[-1].text.startswith("[cut")
    assert taken[-1].nodes == []


def test_the_text_of_one_that_is_too_large_ends_with_how_much_is_missing(activations: torch.jit.ScriptModule) -> None:
    whole = read_printouts(printouts.take(activations))[0]
    limit = len(whole.model_dump_json()) - 1

    cut = read_printouts(printouts.take(activations, each_max_bytes=limit))[0]

    *first, last = cut.text.splitlines()
    missing = len(whole.text.splitlines()) - len(first)
    assert first == whole.text.splitlines()[: len(first)]
    assert f"{missing} more lines" in last
    assert (cut.nodes, cut.inputs, cut.outputs) == ([], [], [])


def test_a_large_model_is_shown_up_to_the_limits() -> None:
    with torch.no_grad():
        module = torch.jit.trace(ManyAdditions(), torch.ones(1), check_trace=False)
    limit = 2**18

    graph, inlined, code = read_printouts(printouts.take(module, each_max_bytes=limit))

    for cut in (graph, inlined):
        assert limit * 0.9 < len(cut.model_dump_json()) <= limit
        assert "more lines" in cut.text.splitlines()[-1]
    assert "more lines" not in code.text


class ManyAdditions(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Side by side: torch goes down a chain of many by recursion, and its stack ends.
        return torch.cat([x + number for number in range(1200)])


@pytest.fixture
def activations() -> torch.jit.ScriptModule:
    with torch.no_grad():
        traced = torch.jit.trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU()), torch.ones(1))
    assert isinstance(traced, torch.jit.ScriptModule)
    return traced
