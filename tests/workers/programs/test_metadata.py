"""Metadata in the manifest: what the traced module holds, and which tensors the trace baked in."""

from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError

from service.protocol.tracer import Traced, from_tracer
from tests.submissions import spec, tensor
from tests.workers.conftest import Told
from tracehouse.artifact.manifest import ATTRIBUTES_MAX, CONSTANTS_MAX, ModuleAttribute, TensorConstant
from tracehouse.torchscript import metadata

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0]])


@pytest.fixture
def traced(run_once: Run) -> Traced:
    return run_once(spec("scripted_attributes", example_inputs=[X])).traced


def test_attributes_have_a_name_a_type_and_a_short_value(traced: Traced) -> None:
    held = {attribute.name: attribute for attribute in traced.attributes}

    assert set(held) == {"training", "inner.training", "inner.scale", "inner.names", "inner.table"}
    assert held["inner.scale"] == ModuleAttribute(name="inner.scale", type="float", value="0.5")
    assert (held["training"].type, held["training"].value) == ("bool", "False")
    assert held["inner.table"].type == "Dict[str, Tensor]"
    assert held["inner.table"].value == "{one: FP32 [3]: 1, 1, 1}"
    assert held["inner.names"].value.startswith("[name 0, name 1, ")
    assert held["inner.names"].value.endswith(" ...")


def test_constants_are_those_of_the_code_with_their_method(traced: Traced) -> None:
    assert traced.constants == [TensorConstant(name="c0", datatype="INT64", shape=(4,), method="forward", submodule="")]


def test_submodules_and_tensors_are_listed(traced: Traced) -> None:
    assert [(part.name, part.type, part.methods) for part in traced.submodules] == [("inner", "Inner", ["forward"])]
    assert [(buffer.name, buffer.shape) for buffer in traced.buffers] == [("inner.offset", (4,))]


def test_of_very_many_the_first_ones_are_told() -> None:
    many = torch.nn.Sequential(*(AddsOnes() for _ in range(max(ATTRIBUTES_MAX, CONSTANTS_MAX) + 1)))
    with torch.no_grad():
        module = torch.jit.trace(many, torch.ones(2), check_trace=False)

    assert len(metadata.attributes(module)) == ATTRIBUTES_MAX
    assert len(metadata.constants(module)) == CONSTANTS_MAX


class AddsOnes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.ones(2)]  # no part of the model, for torch does not look into lists

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.held[0]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("attributes", [{"name": "a", "type": "int", "value": "1"}] * (ATTRIBUTES_MAX + 1)),
        ("attributes", [{"name": "a" * 301, "type": "int", "value": "1"}]),
        ("constants", [{"name": "c", "datatype": "x", "shape": [], "method": "m", "submodule": ""}] * 1001),
        ("constants", [{}] * 100_000),
    ],
)
def test_more_than_the_bounds_is_not_believed(traced: Traced, what: str, said: object) -> None:
    with pytest.raises(ValidationError) as raised:
        from_tracer.validate_python({**traced.model_dump(mode="json"), what: said})

    assert raised.value.error_count() < 20
