"""Raced forms: what torch, or another runtime, makes of an archive whose calls all run the same operators.

Only such an archive has another form here: what a few calls show is true of the others then. With a branch, a loop or
state of its own, a call may run what no call before has run. Nor has one in which rounding decides what is answered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.structure import TensorLeaf
from tracehouse.forms.agreed_form import AgreedForm
from tracehouse.forms.finite import find_nan_source
from tracehouse.forms.ported_operators import find_unported
from tracehouse.forms.rounding import find_step
from tracehouse.forms.selective_form import SelectiveForm
from tracehouse.forms.sizes import find_emptying
from tracehouse.spec.raced_form import RacedForm
from tracehouse.tensors.tensor import Datatype

# Nodes with which a call may run other operators than the one before, or leave something for the next one.
_VARYING = {
    "prim::If",
    "prim::Loop",
    "prim::SetAttr",
    "prim::fork",
    "prim::rpc_async",
    "prim::CallFunction",
    "prim::PythonOp",
    "prim::RaiseException",
}
# torch compiles a graph with fused parts for the shapes that it sees, a dozen times; what answers all others is slower
# than the archive as saved. Measured, with torch 2.13.
_FUSED_SHAPES_MAX = 10
# So many shapes are compared with the archive as saved, and remembered. Chosen: they take less than a mebibyte.
_PORTED_SHAPES_MAX = 4096


class NoSuchForm(Exception):
    """The archive is none that other forms are made of; the text says why."""


@dataclass(frozen=True)
class RacedCalls:
    """The calls of `forward` that a form is made for, and inputs of one by their names in the contract.

    `float_max` is the largest float that is usual, and `tolerance` that of the artifact's check.
    """

    contract: MethodContract
    example: Mapping[str, torch.Tensor]
    float_max: float
    tolerance: float


def make(module: torch.jit.ScriptModule, form: RacedForm, calls: RacedCalls) -> torch.jit.ScriptModule | SelectiveForm:
    """Return the module, which has no method but `forward`, in this form. What it fuses holds for the whole process.

    If the module makes no NaN by itself, the form is for usual values. That of another runtime is for these alone.

    Raises NoSuchForm, and whatever torch or the runtime raises if it cannot make the form.
    """
    require_no_step(module)
    nan_source = find_nan_source(module)
    if form is RacedForm.ONNXRUNTIME:
        _require_ported(module, calls.contract, nan_source)
        agreed = _port(module, calls)
        return SelectiveForm(module, agreed, float_max=calls.float_max, shapes_max=_PORTED_SHAPES_MAX)
    largest = calls.float_max if nan_source is None else None
    shapes_max = None
    if form is RacedForm.ONEDNN_FUSION:
        shapes_max = _FUSED_SHAPES_MAX
        if (emptying := find_emptying(module)) is not None:
            raise NoSuchForm(f"its graph has {emptying}, which may give nothing, of which oneDNN makes any number")
    made = _make(module, form)
    if largest is None and shapes_max is None:
        return made
    return SelectiveForm(module, made, float_max=largest, shapes_max=shapes_max)


def require_no_step(module: torch.jit.ScriptModule) -> None:
    """Raise NoSuchForm unless all calls run the same operators, and rounding decides in none of them."""
    _require_same_operators(module)
    if (step := find_step(module)) is not None:
        raise NoSuchForm(f"its graph has {step} of numbers that it has computed, so that their rounding decides")


def _make(module: torch.jit.ScriptModule, form: RacedForm) -> torch.jit.ScriptModule:
    match form:
        case RacedForm.FREEZE:
            made: torch.jit.ScriptModule = torch.jit.freeze(module)
        case RacedForm.OPTIMIZE_FOR_INFERENCE:
            made = torch.jit.optimize_for_inference(module)
        case RacedForm.ONEDNN_FUSION:
            torch.jit.enable_onednn_fusion(True)
            made = torch.jit.freeze(module)
    return made


def _require_ported(module: torch.jit.ScriptModule, contract: MethodContract, nan_source: str | None) -> None:
    """Raise NoSuchForm unless another runtime answers all usual values as torch does, as far as anybody knows."""
    if any(not isinstance(one.structure, TensorLeaf) for one in contract.arguments):
        raise NoSuchForm("it has arguments that are no tensors")
    if any(one.datatype is not Datatype.FP32 or one.datatypes for one in contract.inputs):
        raise NoSuchForm("it has inputs that are not FP32")
    if any(one.datatype is not Datatype.FP32 for one in contract.outputs):
        raise NoSuchForm("it has outputs that are not FP32")
    if nan_source is not None:
        raise NoSuchForm(f"its graph has {nan_source}, which may make what is not a number")
    if (unported := find_unported(module)) is not None:
        raise NoSuchForm(f"its graph has {unported}, which other runtimes are not known to compute as torch does")


def _port(module: torch.jit.ScriptModule, calls: RacedCalls) -> AgreedForm:
    # Imported before the jail closed, and only where the form is asked for.
    from tracehouse.forms.onnx_runtime import OnnxForm

    forward: Any = module.forward
    shapes = {one.name: one.shape for one in calls.contract.inputs}
    example = {one.name: calls.example[one.name] for one in forward.schema.arguments[1:]}
    free = [{dim: size for dim, size in enumerate(shapes[name]) if isinstance(size, str)} for name in example]
    return AgreedForm(forward, OnnxForm(module, example, free).forward, calls.tolerance)


def _require_same_operators(module: torch.jit.ScriptModule) -> None:
    if any(one.training for one in module.modules()):
        raise NoSuchForm("a part of the archive is in training mode")
    if found := sorted({node.kind() for node in _nodes(module.inlined_graph)} & _VARYING):
        raise NoSuchForm(f"its graph has {found[0]}, so that not every call runs the same operators")


def _nodes(graph: torch.Graph | torch.Block) -> Iterator[torch.Node]:
    for node in graph.nodes():
        yield node
        for block in node.blocks():
            yield from _nodes(block)
