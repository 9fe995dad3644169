"""Subjects of the check that can be traced again: one of tests/models, as it was submitted."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from tracehouse.check.oracle import EagerOracle
from tracehouse.check.target import Target
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import Model
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torchscript import trace
from tracehouse.torchscript.torch_check import Warned

Load = Callable[..., Model]
TOLERANCE = 1e-5


def traced(model: Model, *args: Any) -> tuple[Target, list[Warned]]:
    """And what the tracer warned of."""
    call = bind(model.module, "forward", model.method_name("forward"), args, {})
    eager = EagerOracle(model, 0)
    outputs = {"forward": eager.answer(call).outputs}
    options = TraceOptions()
    made = trace.trace(model, {"forward": call}, options, outputs=outputs, check=False, tolerance=TOLERANCE)

    def retrace(again: Call, within: AbstractContextManager[Any]) -> torch.jit.ScriptModule:
        return trace.again(model, again, options, within, gradients=False)

    return Target(model, call, eager, made.module, "traced", retrace, TOLERANCE, 0), made.warnings
