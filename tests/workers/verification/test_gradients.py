"""Gradients: whoever asks for it has the way back through the artifact compared with that through the eager model."""

from typing import Any

import pytest
import torch

from tests.submissions import spec, tensor
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import AnswerTooLarge
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Tensor
from tracehouse.torch_values.gradients import differentiate
from tracehouse.torch_values.tensors import pack, unpack
from workers.processes.client import GradientAnswer
from workers.verification import gradients
from workers.verification.gradients import compare

X = tensor([[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.5, -2.0]])
# The verification compares the way back, and the layers of the check are no part of it.
GRADIENTS = {"gradients": True, "probes": "off"}


def compared(kept: Artifact) -> list[Comparison]:
    return [one for one in kept.check.comparisons if one.case.endswith(", gradients")]


def finding(kept: Artifact, kind: str) -> Finding:
    return next(one for one in kept.check.findings if one.kind == kind)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("linear", [X]),
        ("encoder", [{"datatype": "FP32", "shape": [2, 5, 8], "random": {"seed": 0}}]),
        ("works_in_place", [X]),
        ("ties_its_weights", [X]),
        ("detaches", [X]),
        ("nested_output", [X]),
        ("normalised_weight", [X]),
    ],
)
def test_gradients_that_agree_are_compared_on_the_example_and_on_fresh_inputs(
    artifact: ArtifactOf, name: str, inputs: list[Any]
) -> None:
    kept = artifact(spec(name, example_inputs=inputs, check=GRADIENTS))

    assert kept.check.verdict is Verdict.VERIFIED, kept.check.findings
    assert [one.case for one in compared(kept)] == [
        "example, gradients", *(f"fresh {n + 1}, gradients" for n in range(gradients.ROUNDS)),
    ]  # fmt: skip
    assert all(one.agrees for one in compared(kept))


def test_each_method_has_its_gradients_compared(artifact: ArtifactOf) -> None:
    inputs = {"example_inputs": [X]}
    kept = artifact(spec("two_methods", methods={"forward": inputs, "encode": inputs}, check={"gradients": True}))

    assert kept.check.verdict is Verdict.VERIFIED
    assert {one.method for one in compared(kept)} == {"forward", "encode"}


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("takes_gradients_off", "grad.input.x"),
        ("rounds_straight_through", "grad.input.x"),
        ("branches_on_requires_grad", "grad.input.x"),
    ],
)
def test_a_way_back_that_the_trace_lost_rejects(artifact: ArtifactOf, name: str, gradient: str) -> None:
    kept = artifact(spec(name, example_inputs=[X], check=GRADIENTS))

    differs = finding(kept, "gradients-differ")
    assert kept.check.verdict is Verdict.REJECTED
    assert differs.evidence["gradient"] == gradient
    assert differs.evidence["eager"] != differs.evidence["artifact"]
    assert differs.remedy
    assert not any(one.agrees for one in compared(kept))


@pytest.mark.parametrize("name", ["takes_gradients_off", "rounds_straight_through"])
def test_whoever_does_not_ask_for_gradients_is_told_of_the_answers_alone(artifact: ArtifactOf, name: str) -> None:
    kept = artifact(spec(name, example_inputs=[X]))

    assert kept.check.verdict is Verdict.VERIFIED
    assert compared(kept) == []


def test_a_trace_with_gradients_is_still_compared_as_it_is_served(artifact: ArtifactOf) -> None:
    kept = artifact(spec("branches_on_grad_mode", example_inputs=[X], check=GRADIENTS))

    example = next(one for one in kept.check.comparisons if one.case == "example")
    assert kept.check.verdict is Verdict.REJECTED
    assert not example.agrees
    assert all(one.agrees for one in compared(kept))


def test_an_artifact_that_raises_on_the_way_back_is_rejected_with_what_it_raised(artifact: ArtifactOf) -> None:
    kept = artifact(spec("goes_back_once", example_inputs=[X], check=GRADIENTS))

    assert kept.check.verdict is Verdict.REJECTED
    assert "modified by an inplace operation" in finding(kept, "gradients-differ").detail


def test_an_eager_model_that_has_no_way_back_leaves_nothing_to_compare(artifact: ArtifactOf) -> None:
    source = """
import torch
def Net(x):
    y = x.exp()
    return y * y.mul_(1)
"""
    kept = artifact(spec_of(source, check=GRADIENTS))

    assert kept.check.verdict is Verdict.VERIFIED
    assert "modified by an inplace operation" in finding(kept, "gradients-not-compared").detail


def test_a_model_without_anything_to_go_back_to_is_told_so(artifact: ArtifactOf) -> None:
    kept = artifact(spec_of("import torch\ndef Net(x):\n    return x.round().long()\n", check=GRADIENTS))

    assert "no gradient" in finding(kept, "gradients-not-compared").detail


def test_gradients_are_compared_under_the_same_random_numbers(artifact: ArtifactOf) -> None:
    kept = artifact(spec("dropout_left_on", example_inputs=[X], check=GRADIENTS))

    assert kept.check.verdict is Verdict.VERIFIED
    assert compared(kept)


def test_random_numbers_of_python_leave_no_gradients_to_compare(artifact: ArtifactOf) -> None:
    kept = artifact(spec("skips_at_random", example_inputs=[X], check=GRADIENTS))

    assert kept.check.verdict is Verdict.REJECTED
    assert "random" in finding(kept, "gradients-not-compared").detail


def test_gradients_of_more_bytes_than_are_held_are_said_not_to_be_compared(artifact: ArtifactOf) -> None:
    source = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(1)[0].expand(2**26 + 1).clone())
    def forward(self, x):
        return x * self.table[0] + x
"""
    kept = artifact(spec_of(source, check=GRADIENTS))

    assert kept.check.verdict is Verdict.VERIFIED
    assert "bytes" in finding(kept, "gradients-not-compared").detail


def spec_of(source: str, **members: Any) -> dict[str, Any]:
    files = {"net.py": source}
    return {"model": "net", "source": {"files": files, "entrypoint": "net:Net"}, "example_inputs": [X], **members}


def test_the_way_back_weighs_the_outputs_so_that_errors_do_not_cancel() -> None:
    def forwards(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return given["x"]

    def swapped(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return given["x"].flip(0)

    inputs = {"x": torch.zeros(2)}
    found = [
        GradientAnswer({one.name: one for one in back.tensors}, back.without)
        for back in (differentiate(run, inputs, torch.nn.Module(), 0, most=100) for run in (forwards, swapped))
    ]

    difference = compare(*found, 1e-5).difference
    assert difference is not None
    assert difference.leaf == "grad.input.x"


def test_a_parameter_of_two_names_has_the_gradient_of_both_uses() -> None:
    tied = torch.nn.Module()
    tied.a = tied.b = torch.nn.Parameter(torch.ones(1))
    apart = torch.nn.Module()
    apart.a = torch.nn.Parameter(torch.ones(1))
    apart.b = torch.nn.Parameter(apart.a.data)  # as an archive has it

    for module in (tied, apart):
        found = differentiate(
            lambda given, it=module: given["x"] * it.a + it.b, {"x": torch.ones(1)}, module, 0, most=99
        )
        named = unpack(found.tensors)
        assert torch.equal(named["grad.parameter.a"], named["grad.parameter.b"])
        assert torch.allclose(named["grad.parameter.a"], 2 * named["grad.input.x"])


def test_more_than_may_be_answered_is_refused_before_it_is_computed() -> None:
    def never(given: dict[str, torch.Tensor]) -> torch.Tensor:
        raise AssertionError

    with pytest.raises(AnswerTooLarge):
        differentiate(never, {"x": torch.ones(100)}, torch.nn.Module(), 0, most=399)


def told(without: tuple[str, ...] = (), **values: list[float]) -> GradientAnswer:
    tensors: dict[str, Tensor] = {}
    for name, value in values.items():
        tensors |= {one.name: one for one in pack({f"grad.parameter.{name}": torch.tensor(value)})}
    return GradientAnswer(tensors, [f"grad.parameter.{name}" for name in without])


def test_a_gradient_that_only_eager_has_is_named() -> None:
    difference = compare(told(a=[1.0], b=[1.0]), told(a=[1.0]), 1e-5).difference

    assert difference is not None
    assert (difference.leaf, difference.what) == ("grad.parameter.b", "eager has it, and the artifact has not")


def test_no_gradient_on_both_sides_agrees_and_so_does_one_of_zeros() -> None:
    assert compare(told(("a",), b=[1.0]), told(("a",), b=[1.0]), 1e-5).agrees
    assert compare(told(("a",), b=[1.0]), told(a=[0.0], b=[1.0]), 1e-5).agrees
    assert not compare(told(("a",), b=[1.0]), told(a=[0.5], b=[1.0]), 1e-5).agrees


def test_what_rounding_leaves_of_a_gradient_that_is_zero_is_no_difference() -> None:
    assert compare(told(bias=[1e-7], weight=[1.0]), told(bias=[-1e-7], weight=[1.0]), 1e-5).agrees
    assert not compare(told(bias=[1e-5], weight=[1.0]), told(bias=[-1e-5], weight=[1.0]), 1e-5).agrees


def test_a_gradient_of_integers_is_compared_as_what_it_says_it_is() -> None:
    (integers,) = pack({"grad.parameter.a": torch.tensor([1])})
    odd = GradientAnswer({integers.name: integers}, [])

    assert compare(odd, odd, 1e-5).agrees
    assert not compare(odd, told(a=[1.0]), 1e-5).agrees


def test_gradients_of_a_frozen_form_are_refused(work: Work) -> None:
    with pytest.raises(ValueError, match="frozen"):
        work(spec("linear", example_inputs=[X], check=GRADIENTS, options={"freeze": True}))
