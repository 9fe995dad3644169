"""torch's own check, as data: what it compared, what differed and where, and what it does not look at."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.storage.database import Store
from tests.conftest import TENANT
from tests.submissions import spec, tensor
from tests.workers.conftest import Told, Work
from tracehouse.eager.call import bind
from tracehouse.eager.model import LoadedModel
from tracehouse.findings.trace_check import OutputRef, TorchCheck, TracedNode
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torchscript.trace import trace

Load = Callable[..., LoadedModel]
Run = Callable[..., Told]
# Without the layers of our own check, which take most of the time: what is shown is what torch's says.
OFF = {"probes": "off"}


def checked(
    model: LoadedModel, *args: Any, gradients: bool = False, methods: tuple[str, ...] = ("forward",)
) -> TorchCheck:
    calls = {name: bind(model.module, name, name, args, {}) for name in methods}
    with torch.no_grad():
        outputs = {name: call.run(model.copy_module()) for name, call in calls.items()}
    random.seed(1)  # the first two numbers lie on either side of a half
    return trace(
        model, calls, TraceOptions(), outputs=outputs, check=True, tolerance=1e-5, gradients=gradients
    ).torch_check


def place(node: TracedNode) -> tuple[str | None, int | None, str | None]:
    return node.file, node.line, node.source


def test_a_trace_that_agrees_has_nothing_to_say(load: Load) -> None:
    assert checked(load("linear"), torch.ones(2, 4)) == TorchCheck(ran=True, passed=True)


def test_two_graphs_part_at_an_operator_with_the_line_of_either(load: Load) -> None:
    said = checked(load("branches_at_random"), torch.ones(3))

    assert said.passed is False
    assert said.method == "forward"
    assert said.first_diverging is not None
    assert said.first_diverging.trace.operator == "prim::Constant"
    assert place(said.first_diverging.trace) == ("branches_at_random.py", 9, "return x * 2")
    assert place(said.first_diverging.check) == ("branches_at_random.py", 10, "return x + 1")
    assert said.graph_diff is not None
    assert any(line.startswith("-") and "aten::mul" in line for line in said.graph_diff.splitlines())
    assert any(line.startswith("+") and "aten::add" in line for line in said.graph_diff.splitlines())


def test_a_constant_that_differs_has_its_line_and_what_differed(load: Load) -> None:
    (constant,) = checked(load("draws_a_constant"), torch.ones(2)).constants

    assert place(constant.node) == ("draws_a_constant.py", 8, "drawn = torch.tensor([random.random(), 1.0])")
    assert "Mismatched elements: 1 / 2" in constant.difference


def test_a_counter_shows_in_outputs_and_constants(load: Load) -> None:
    said = checked(load("counts_calls"), torch.ones(3))

    assert [(one.method, one.number, one.output, one.other) for one in said.outputs] == [
        ("forward", 1, "output", "Python function")
    ]
    assert "Mismatched elements: 3 / 3" in said.outputs[0].difference
    assert [constant.node.line for constant in said.constants] == [11]


def test_torchs_check_is_given_the_check_inputs(run: Run) -> None:
    given = {"check_inputs": [[tensor([[1.0], [2.0], [3.0]])]]}
    told = run(spec("bakes_a_size", example_inputs=[tensor([[1.0], [2.0]])], check=given))

    (constant,) = told.traced.check.torch.constants
    assert (constant.node.file, constant.node.line) == ("bakes_a_size.py", 7)
    assert told.findings["output-differs-elsewhere"].line == 7
    assert told.verdict == "restricted"


def test_a_check_input_of_one_method_goes_with_the_examples_of_the_others(run: Run) -> None:
    methods = {"encode": {"example_inputs": [tensor([[1.0] * 4])]}, "decode": {"example_inputs": [tensor([[1.0] * 2])]}}
    given = {**OFF, "check_inputs": [{"method": "encode", "example_inputs": [tensor([[1.0] * 4, [2.0] * 4])]}]}
    told = run(spec("two_methods", methods=methods, check=given))

    assert told.traced.check.torch == TorchCheck(ran=True, passed=True)


def test_a_check_input_that_nests_otherwise_is_not_for_torchs_check(run: Run) -> None:
    x, mask = tensor([1.0]), tensor([True], "BOOL")
    example = [{"tuple": [x, x]}, {"scale": x}, 2.0, ["a"]]
    told = run(spec("nested_input", example_inputs=example, check={**OFF, "check_inputs": [[*example, mask]]}))

    assert told.traced.check.torch.passed
    assert not told.comparisons["check_inputs[0]"].in_contract


def test_graphs_of_submodules_part_where_their_operators_do(run: Run) -> None:
    given = {**OFF, "check_inputs": [[tensor([[1.0], [2.0], [3.0]])]]}
    told = run(spec("loops_over_a_part", example_inputs=[tensor([[1.0], [2.0]])], check=given))

    assert (told.findings["torch-check-failed"].file, told.findings["torch-check-failed"].line) == (
        "loops_over_a_part.py",
        11,
    )


def test_nodes_that_draw_are_listed_in_submodules_too(load: Load) -> None:
    said = checked(load("dropout_in_a_part"), torch.ones(64))

    assert [(node.operator, *place(node)) for node in said.nondeterministic] == [
        ("aten::dropout", "dropout_in_a_part.py", 6, "return torch.nn.functional.dropout(x, 0.5)")
    ]
    assert [(one.number, one.output) for one in said.outputs] == [(2, "output.1")]


def test_what_nests_is_listed_as_not_compared(load: Load) -> None:
    said = checked(load("dropout_left_on"), torch.ones(64))

    assert said.passed is True
    assert [one.output for one in said.not_compared] == ["output.1.0"]


def test_methods_after_the_one_that_failed_are_listed_as_not_compared(load: Load) -> None:
    said = checked(load("counts_calls_in_two_methods"), torch.ones(3), methods=("forward", "encode"))

    assert said.method == "forward"
    assert [(one.method, one.output) for one in said.not_compared] == [("encode", "output")]


def test_in_grad_mode_an_encoder_takes_another_path_than_torchs_check(load: Load) -> None:
    said = checked(load("encoder"), torch.rand(2, 3, 8), gradients=True)

    assert said.passed is None
    assert said.error is not None
    assert "without them" in said.error
    assert said.first_diverging is not None


def test_without_gradients_the_same_encoder_passes(load: Load) -> None:
    assert checked(load("encoder"), torch.rand(2, 3, 8)).passed is True


def test_in_grad_mode_a_check_that_fails_for_another_reason_is_believed(load: Load) -> None:
    said = checked(load("counts_calls"), torch.ones(3), gradients=True)

    assert (said.passed, said.error) == (False, None)


def test_a_model_that_raises_in_the_check_leaves_it_without_an_end(load: Load) -> None:
    said = checked(load("raises_the_second_time"), torch.ones(3))

    assert said.passed is None
    assert said.error is not None
    assert "ValueError" in said.error
    assert said.message == "ValueError: not again"
    assert [one.output for one in said.not_compared] == ["output"]


def test_each_warning_has_its_method_kind_and_line(load: Load) -> None:
    found = checked(load("warns_of_every_kind"), torch.ones(3)).warnings

    assert {(one.kind, one.line) for one in found} == {
        ("tensor-to-python-boolean", 6),
        ("tensor-to-python-integer", 8),
        ("tensor-to-python-float", 9),
        ("tensor-to-python-list", 10),
        ("tensor-to-numpy", 11),
        ("iterating", 12),
        ("len", 14),
        ("constant-registered", 15),
    }
    assert {(one.method, one.file) for one in found} == {("forward", "warns_of_every_kind.py")}
    assert all(one.source and one.message for one in found)


def test_a_line_that_two_methods_run_is_warned_of_under_both(load: Load) -> None:
    found = checked(load("warns_of_every_kind"), torch.ones(3), methods=("forward", "encode")).warnings

    assert {one.method for one in found if one.line == 6} == {"forward", "encode"}
    assert {one.method for one in found if one.line == 19} == {"encode"}


def test_what_the_check_itself_warns_of_is_no_finding_of_the_tracers(run: Run) -> None:
    told = run(spec("dropout_in_a_part", example_inputs=[tensor([1.0] * 64)], check=OFF))

    assert "output-differs" in {one.kind for one in told.traced.check.torch.warnings}
    assert "tracer-warning" not in told.findings


def test_its_own_words_name_no_place_of_this_machine(load: Load) -> None:
    said = checked(load("counts_calls"), torch.ones(3))

    assert said.message is not None
    assert "First diverging operator" in said.message
    assert "torch/nn/modules/module.py" in said.message
    assert not [line for line in said.message.splitlines() if line.strip().startswith("/")]
    assert "# /" not in said.message


def test_a_finding_of_the_tracers_has_method_and_kind(run: Run) -> None:
    told = run(spec("branches_on_data", example_inputs=[tensor([1.0, 2.0])], check=OFF))

    assert told.findings["tracer-warning"].evidence == {"method": "forward", "kind": "tensor-to-python-boolean"}


def test_a_failed_check_is_a_finding_at_the_line_where_the_graphs_part(run: Run) -> None:
    told = run(spec("counts_calls", example_inputs=[tensor([1.0, 2.0])], check=OFF))
    failed = told.findings["torch-check-failed"]

    assert (failed.file, failed.line, failed.evidence["method"]) == ("counts_calls.py", 11, "forward")
    assert "what the other findings name" in (failed.remedy or "")


def test_where_nodes_draw_the_finding_asks_what_torch_asks(run: Run) -> None:
    told = run(spec("dropout_in_a_part", example_inputs=[tensor([1.0] * 64)], check=OFF))
    failed = told.findings["torch-check-failed"]

    assert failed.remedy is not None
    assert "did you forget to call .eval()" in failed.remedy
    assert failed.line == 6


def test_a_check_that_erred_is_a_finding_and_rejects_nothing(run: Run) -> None:
    x = {"datatype": "FP32", "shape": [2, 3, 8], "random": {"seed": 0}}
    told = run(spec("encoder", example_inputs=[x], check={**OFF, "gradients": True}))

    assert "torch-check-failed" not in told.findings
    assert "our own check decides" in told.findings["torch-check-erred"].detail
    assert "nothing has to change" in (told.findings["torch-check-erred"].remedy or "")
    assert told.verdict == "verified"


@pytest.mark.parametrize("mode", ["trace", "script"])
def test_a_deprecated_option_is_a_finding_and_rejects_nothing(run: Run, mode: str) -> None:
    x = tensor([[1.0, 2.0, 3.0, 4.0]])
    told = run(spec("linear", mode=mode, example_inputs=[x], options={"optimize": True}, check=OFF))

    assert told.findings["deprecated-option"].evidence == {"option": "optimize"}
    assert told.verdict == "verified"
    assert "deprecated-option" not in run(spec("linear", mode=mode, example_inputs=[x], check=OFF)).findings


def test_what_it_said_is_in_the_manifest(work: Work, store: Store) -> None:
    request = work(spec("dropout_left_on", example_inputs=[tensor([1.0] * 64)], accept_unsound=True, check=OFF))
    said = store.artifacts.get(TENANT, request.artifacts[0].digest).check.torch

    assert (said.ran, said.passed) == (True, True)
    assert said.not_compared == [OutputRef(method="forward", output="output.1.0")]
