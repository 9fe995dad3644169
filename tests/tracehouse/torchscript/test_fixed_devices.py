"""The operators whose device is fixed, read off the graphs of traced and scripted modules."""

import io
from collections.abc import Callable

import pytest
import torch

import tracehouse
from tracehouse.torchscript.fixed_devices import find_fixed_devices

X = torch.ones(2, 3)

Forward = Callable[[torch.Tensor], torch.Tensor]


class Calls(torch.nn.Module):
    def __init__(self, function: Forward) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class NewOnes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3)


class OnesOnTheInputsDevice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, device=x.device)


def found(module: torch.jit.ScriptModule) -> list[tuple[str, str]]:
    return [(one.operator, one.device) for one in find_fixed_devices(module)["forward"]]


def traced(function: Forward) -> torch.jit.ScriptModule:
    module = torch.jit.trace(Calls(function), X, check_trace=False)
    assert isinstance(module, torch.jit.ScriptModule)
    return module


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x + torch.zeros(3), "aten::zeros"),
        (lambda x: x + torch.zeros(3, device=x.device), "aten::zeros"),
        (lambda x: x + torch.arange(x.shape[1]), "aten::arange"),
        (lambda x: x.to("cpu") + 1, "aten::to"),
    ],
    ids=["no device", "the input's device", "of a size", "moved"],
)
def test_a_trace_fixes_the_device_of_a_tensor_that_is_made_or_moved(function: Forward, operator: str) -> None:
    assert found(traced(function)) == [(operator, "cpu")]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x.new_zeros(3),
        lambda x: x + torch.zeros_like(x),
        lambda x: x.to(torch.float64) + 1,
        lambda x: torch.nn.functional.linear(x, x),
    ],
    ids=["new_zeros", "zeros_like", "another datatype", "no new tensor"],
)
def test_what_follows_its_inputs_is_not_listed(function: Forward) -> None:
    assert found(traced(function)) == []


def test_a_script_keeps_the_inputs_device_and_otherwise_makes_tensors_on_the_cpu() -> None:
    assert found(torch.jit.script(NewOnes())) == [("aten::ones", "cpu")]
    assert found(torch.jit.script(OnesOnTheInputsDevice())) == []


def test_another_device_is_read_off_an_archive_though_it_is_not_there() -> None:
    module = traced(lambda x: x.to("cpu") + 1)
    device = next(node for node in module.graph.findAllNodes("prim::Constant") if str(node.output().type()) == "Device")
    device.s_("value", "cuda:1")
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    assert found(torch.jit.load(file)) == [("aten::to", "cuda:1")]


def test_the_contract_names_the_line() -> None:
    report = tracehouse.check(NewOnes(), (X,))
    [one] = report.contract.methods["forward"].devices or []
    assert str(one).startswith("aten::ones on cpu at ")
    assert str(one).endswith(f"{NewOnes.forward.__code__.co_firstlineno + 1}")
    assert f"always on one device: {one}" in str(report)
    assert "x.new_zeros" in report.html()
