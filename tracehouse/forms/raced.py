"""Raced forms: what torch makes of an archive whose calls all run the same operators.

Only such an archive has another form here: what a few calls show is true of the others then. With a branch, a loop or
state of its own, a call may run what no call before has run. Nor has one in which rounding decides what is answered.
"""

from collections.abc import Iterator

import torch

from tracehouse.forms.finite import find_nan_source
from tracehouse.forms.rounding import find_step
from tracehouse.forms.selective_form import SelectiveForm
from tracehouse.forms.sizes import find_emptying
from tracehouse.spec.raced_form import RacedForm

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


class NoSuchForm(Exception):
    """The archive is none that other forms are made of; the text says why."""


def make(module: torch.jit.ScriptModule, form: RacedForm, float_max: float) -> torch.jit.ScriptModule | SelectiveForm:
    """Return the module, which has no method but `forward`, in this form. What it fuses holds for the whole process.

    If the module makes no NaN by itself, the form is for usual values, of which `float_max` is the largest float.

    Raises NoSuchForm, and whatever torch raises if it cannot make the form.
    """
    require_no_step(module)
    largest = float_max if find_nan_source(module) is None else None
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
