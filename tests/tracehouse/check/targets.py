"""Targets of the check, made in this process: a model, its example, and the artifact traced or scripted from it."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from tracehouse.check.oracle import EagerOracle
from tracehouse.check.target import Target
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import LoadedModel
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torch_values import structure
from tracehouse.torchscript import trace
from tracehouse.torchscript.torch_check import RecordedWarning

Load = Callable[..., LoadedModel]
TOLERANCE = 1e-5


def make_target(module: torch.nn.Module, *args: Any, scripted: bool = False) -> Target:
    """Return a target that can't be traced again."""
    module.eval()
    model = LoadedModel(module)
    call = bind(module, "forward", "forward", args, {})
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        if scripted:
            artifact = torch.jit.script(model.copy_module())
        else:
            artifact = torch.jit.trace(model.copy_module(), call.clone().artifact_args, check_trace=False, strict=False)
    return Target(
        model=model,
        call=call.as_scripted() if scripted else call,
        eager=EagerOracle(model, 0),
        artifact=artifact,
        form="scripted" if scripted else "traced",
        retrace=None,
        tolerance=TOLERANCE,
        seed=0,
    )


def make_retraceable(model: LoadedModel, *args: Any, **kwargs: Any) -> Target:
    """Return a target that can be traced again, without strict checks of its outputs."""
    call = bind(model.module, "forward", "forward", args, kwargs)
    options = TraceOptions(strict=False)

    def retrace(again: Call, within: AbstractContextManager[Any]) -> trace.Retraced:
        return trace.retrace(model, again, options, within, gradients=False)

    traced = trace.trace(model, {"forward": call}, options, outputs={}, check=False, tolerance=TOLERANCE)
    return Target(model, call, EagerOracle(model, 0), traced.module, "traced", retrace, TOLERANCE, 0)


def trace_target(model: LoadedModel, *args: Any) -> tuple[Target, list[RecordedWarning]]:
    """Return a target that can be traced again, traced as the service traces it, and the tracer's warnings."""
    call = bind(model.module, "forward", model.method_name("forward"), args, {})
    eager = EagerOracle(model, 0)
    outputs = {"forward": eager.answer(call).outputs}
    options = TraceOptions()
    call = call.returning(structure.describe(outputs["forward"], "output"), strict=options.strict)
    traced = trace.trace(model, {"forward": call}, options, outputs=outputs, check=False, tolerance=TOLERANCE)

    def retrace(again: Call, within: AbstractContextManager[Any]) -> trace.Retraced:
        return trace.retrace(model, again, options, within, gradients=False)

    return Target(model, call, eager, traced.module, "traced", retrace, TOLERANCE, 0), traced.warnings
