"""Printouts: text and nodes of every method and submodule, with the user's lines."""

from collections.abc import Callable, Iterable
from io import BytesIO

import pytest
import torch

from tests.submissions import spec, tensor
from tests.workers.conftest import Told, read_printouts
from tracehouse.artifact.manifest import Printout
from tracehouse.eager.model import LoadedModel
from tracehouse.torchscript import printouts, tensor_constants

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0]])


def printed(told: Told) -> dict[tuple[str, str, str], Printout]:
    return {(printout.submodule, printout.method, printout.kind): printout for printout in told.printouts}


def test_each_method_and_submodule_has_its_printouts(run_once: Run) -> None:
    methods = {"forward": {"example_inputs": [X]}, "encode": {"example_inputs": [X]}}
    shown = printed(run_once(spec("two_methods", methods=methods)))

    def kinds(submodule: str, method: str) -> set[str]:
        return {kind for of, named, kind in shown if (of, named) == (submodule, method)}

    everywhere = {"graph", "inlined_graph", "code", "code_with_constants"}
    for method in ("forward", "encode"):
        assert kinds("", method) == everywhere | {"onnx_trace"}
    for submodule in ("encoder", "decoder"):
        assert kinds(submodule, "forward") == everywhere
    for submodule in ("", "encoder", "decoder"):
        assert kinds(submodule, "") == {"dump"}


def test_a_node_has_its_operator_values_types_scope_and_line(run_once: Run) -> None:
    shown = printed(run_once(spec("linear", example_inputs=[X])))
    graph = shown["", "forward", "inlined_graph"]

    (linear,) = [node for node in graph.nodes if node.operator == "aten::linear"]
    assert (linear.file, linear.line, linear.source) == ("linear.py", 10, "return self.layer(x)")
    assert linear.scope == "layer"
    assert linear.types == ["Float(1, 3)"]
    assert linear.outputs == graph.outputs
    assert graph.inputs[1] == "x"
    assert linear.inputs[0] == "x"


def test_code_is_torchscript(run_once: Run) -> None:
    code = printed(run_once(spec("linear", example_inputs=[X])))["", "forward", "code"]

    assert code.text.startswith("def forward(self,\n    x: Tensor) -> Tensor:")
    assert code.nodes == []


def test_functions_that_are_called_stand_below_the_code(run_once: Run) -> None:
    shown = printed(run_once(spec("calls_functions_of_a_script", example_inputs=[X])))

    for kind in ("code", "code_with_constants"):
        called, first, second = shown["", "forward", kind].text.split("\ndef ")
        assert "__torch__.calls_functions_of_a_script.absolute" in called
        assert first.startswith("absolute(x: Tensor) -> Tensor:")
        assert "torch.neg(x)" in second


TWICE = {"forward": {"example_inputs": [X]}, "encode": {"example_inputs": [X]}}


def scopes_of(graph: Printout, operator: str) -> list[str]:
    return [node.scope for node in graph.nodes if node.operator == operator]


def test_scopes_are_dotted_paths_in_lists_on_each_call_and_in_each_method(run_once: Run) -> None:
    shown = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))

    forward = shown["", "forward", "inlined_graph"]
    paths = ["layers.0", "layers.1", "layers.0"]
    assert scopes_of(forward, "aten::linear") == [*(f"{path}.parts.0" for path in paths), "head"]
    assert scopes_of(forward, "aten::relu") == [f"{path}.parts.1" for path in paths]
    assert scopes_of(forward, "aten::add") == paths
    assert scopes_of(forward, "aten::mul") == [""]
    assert scopes_of(shown["", "encode", "inlined_graph"], "aten::linear") == ["layers.1.parts.0"]


def test_a_node_that_reads_a_weight_has_the_scope_of_its_submodule(run_once: Run) -> None:
    graph = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))["", "encode", "inlined_graph"]

    read = {node.attributes["name"]: node.scope for node in graph.nodes if node.operator == "prim::GetAttr"}
    assert (read["weight"], read["parts"], read["layers"]) == ("layers.1.parts.0", "layers.1", "")


def test_the_nodes_of_a_submodules_own_graph_are_its_own(run_once: Run) -> None:
    shown = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))

    graph = shown["layers.0", "forward", "graph"]
    assert {node.scope for node in graph.nodes} == {"layers.0"}
    assert scopes_of(shown["layers.0", "forward", "inlined_graph"], "aten::linear") == ["layers.0.parts.0"]


def test_a_line_is_the_users_even_where_the_operator_is_in_a_file_of_torch(run_once: Run) -> None:
    graph = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))["", "forward", "inlined_graph"]

    lines = {(node.operator, node.line, node.source) for node in graph.nodes if node.operator.startswith("aten::")}
    assert ("aten::relu", 13, "return self.parts(x) + 1") in lines
    assert ("aten::mul", 26, "return self.head(x) * torch.tensor([0.5, 2.0])") in lines
    assert {line for operator, line, _ in lines if operator == "aten::linear"} == {13, 26}


def test_scripted_parts_have_scopes_and_lines_as_traced_ones_have(run_once: Run) -> None:
    shown = printed(run_once(spec("scripted_lists", example_inputs=[X])))

    for kind in ("inlined_graph", "onnx_trace"):
        nodes = [node for node in shown["", "forward", kind].nodes if node.operator.startswith("aten::")]
        assert [(node.operator, node.scope, node.line) for node in nodes] == [
            ("aten::linear", "inner.first.0", 16),
            ("aten::relu", "inner", 16),
            ("aten::linear", "inner.first.1", 16),
            ("aten::relu", "inner", 16),
            ("aten::linear", "inner.second.0", 18),
            ("aten::dropout", "inner.dropout", 18),
            ("aten::linear", "inner.second.1", 18),
            ("aten::dropout", "inner.dropout", 18),
            ("aten::sum", "inner", 19),
            ("aten::gt", "inner", 19),
            ("aten::Bool", "inner", 19),
            ("aten::mul", "inner", 20),
            ("aten::sub", "", 30),
        ]


def test_nodes_in_blocks_say_whose_block_it_is(run_once: Run) -> None:
    graph = printed(run_once(spec("scripted_lists", example_inputs=[X])))["", "forward", "inlined_graph"]
    (place,) = [place for place, node in enumerate(graph.nodes) if node.operator == "prim::If"]

    inside = [(node.operator, node.block) for node in graph.nodes if node.parent == place]
    assert inside == [
        ("prim::Param", 0),
        ("aten::mul", 0),
        ("prim::Return", 0),
        ("prim::Param", 1),
        ("prim::Return", 1),
    ]
    assert {node.parent for node in graph.nodes} == {None, place}
    (product,) = [node for node in graph.nodes if node.operator == "aten::mul"]
    (returned, _) = [node for node in graph.nodes if node.operator == "prim::Return"]
    assert returned.inputs == product.outputs


def test_attributes_are_told_where_they_are_short(run_once: Run) -> None:
    graph = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))["", "forward", "inlined_graph"]
    values = {node.types[0]: node.attributes.get("value") for node in graph.nodes if node.operator == "prim::Constant"}

    assert values["Float(2)"] == "FP32 [2]: 0.5, 2"
    assert (values["int"], values["bool"], values["Device"]) == ("6", "False", "cpu")
    assert "layers" in [node.attributes.get("name") for node in graph.nodes if node.operator == "prim::GetAttr"]


def test_tensor_constants_stand_below_the_code(run_once: Run) -> None:
    shown = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))

    code, whole = (shown["", "forward", kind].text for kind in ("code", "code_with_constants"))
    assert "CONSTANTS.c0" in code
    assert whole == f"{code}\nCONSTANTS.c0 = FP32 [2]: 0.5, 2\n"
    assert shown["head", "forward", "code_with_constants"].text == shown["head", "forward", "code"].text


def test_a_long_constant_is_shortened() -> None:
    assert tensor_constants.describe_tensor(torch.arange(1000)) == (
        "INT64 [1000]: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ... (1000 values)"
    )
    assert tensor_constants.describe_tensor(torch.tensor(0.1)) == "FP32 []: 0.1"
    assert tensor_constants.describe_tensor(torch.tensor(0.1, dtype=torch.float64)) == "FP64 []: 0.1"
    assert tensor_constants.describe_tensor(torch.ones(2, 0)) == "FP32 [2, 0]"
    assert tensor_constants.describe_tensor(torch.ones(2, dtype=torch.complex64)) == "complex64 [2]"


def test_a_dump_shows_the_modules_and_no_address_in_memory(run_once: Run) -> None:
    dump = printed(run_once(spec("calls_a_part_twice", methods=TWICE)))["", "", "dump"]

    assert "training = False" in dump.text
    assert "head = <__torch__.torch.nn.modules.linear" in dump.text
    assert "0x" not in dump.text
    assert "weight = ..." in dump.text
    assert dump.nodes == []


def test_a_dump_does_not_show_a_million_values() -> None:
    part = torch.jit.script(HoldsATable())

    dumps = {each.submodule: each.text for each in read_printouts(printouts.print_all(part)) if each.kind == "dump"}

    assert dumps[""].startswith("[left out")
    assert dumps["other"].startswith("module __torch__")


class HoldsATable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = [torch.ones(1000, 1000)]
        self.other = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(x) + self.table[0].sum()


def test_an_archive_that_was_loaded_has_the_scopes_and_lines_of_its_trace(load: Callable[..., LoadedModel]) -> None:
    with torch.no_grad():
        traced = torch.jit.trace(load("scripted_lists").module, torch.ones(1, 4), check_trace=False)
    saved = BytesIO()
    torch.jit.save(traced, saved)
    saved.seek(0)

    shown, again = (
        [
            (node.operator, node.scope, node.line)
            for each in read_printouts(printouts.print_all(module))
            if (each.kind, each.submodule) == ("inlined_graph", "")
            for node in each.nodes
            if node.operator.startswith("aten::")
        ]
        for module in (traced, torch.jit.load(saved))
    )

    assert again == shown
    assert ("aten::linear", "inner.second.1", 18) in shown


def test_an_onnx_trace_is_what_torch_makes_by_tracing_once_more() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)
    ).eval()
    x = torch.ones(1, 1, 4, 4)
    with torch.no_grad():
        traced = torch.jit.trace(model, x, check_trace=False)
        theirs, _ = torch.jit._get_trace_graph(model, (x,))

    (ours,) = [each for each in read_printouts(printouts.print_all(traced)) if each.kind == "onnx_trace"]

    def operators(kinds: Iterable[str]) -> list[str]:
        return [kind for kind in kinds if kind != "prim::Constant"]  # torch pools them

    assert operators(node.operator for node in ours.nodes) == operators(node.kind() for node in theirs.nodes())
    assert len(ours.inputs) == len([value for value in theirs.inputs() if value.uses()])
    assert {"0.weight", "0.bias", "1.running_mean", "4.weight"} < set(ours.inputs)
    (linear,) = [node for node in ours.nodes if node.operator == "aten::linear"]
    assert linear.inputs[1:] == ["4.weight", "4.bias"]


def test_the_blocks_of_scripted_parts_are_among_the_nodes(run_once: Run) -> None:
    graph = printed(run_once(spec("scripted_part", example_inputs=[X])))["", "forward", "inlined_graph"]
    operators = [node.operator for node in graph.nodes]

    assert operators.index("prim::If") < operators.index("aten::zeros_like")


def test_no_text_shows_this_machines_paths(run_once: Run) -> None:
    assert not any(
        "site-packages" in printout.text for printout in run_once(spec("linear", example_inputs=[X])).printouts
    )


def test_what_is_over_the_limit_is_left_out_and_says_so(activations: torch.jit.ScriptModule) -> None:
    taken = read_printouts(printouts.print_all(activations, max_bytes=1000))

    assert len(taken) == 16
    assert taken[-1].text.startswith("[cut")
    assert taken[-1].nodes == []


def test_the_text_of_one_that_is_too_large_ends_with_how_much_is_missing(activations: torch.jit.ScriptModule) -> None:
    whole = read_printouts(printouts.print_all(activations))[0]
    limit = len(whole.model_dump_json()) - 1

    cut = read_printouts(printouts.print_all(activations, each_max_bytes=limit))[0]

    *first, last = cut.text.splitlines()
    missing = len(whole.text.splitlines()) - len(first)
    assert first == whole.text.splitlines()[: len(first)]
    assert f"{missing} more lines" in last
    assert (cut.nodes, cut.inputs, cut.outputs) == ([], [], [])


def test_a_large_model_is_shown_up_to_the_limits() -> None:
    with torch.no_grad():
        module = torch.jit.trace(ManyAdditions(), torch.ones(1), check_trace=False)
    limit = 2**18

    graph, inlined, lowered, code, *_ = read_printouts(printouts.print_all(module, each_max_bytes=limit))

    for cut in (graph, inlined, lowered):
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
