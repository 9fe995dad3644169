"""Subjects of the check that can be traced again."""

from contextlib import AbstractContextManager
from typing import Any

import torch

from tracehouse.check.oracle import EagerOracle
from tracehouse.check.target import Target
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import Model
from tracehouse.spec.trace_spec import TraceOptions
from tracehouse.torchscript import trace


def target_of(model: Model, *args: Any, **kwargs: Any) -> Target:
    call = bind(model.module, "forward", "forward", args, kwargs)
    options = TraceOptions(strict=False)

    def again(other: Call, within: AbstractContextManager[Any]) -> torch.jit.ScriptModule:
        return trace.again(model, other, options, within, gradients=False)

    artifact = trace.again(model, call, options, torch.no_grad(), gradients=False)
    return Target(model, call, EagerOracle(model, 0), artifact, "traced", again, 1e-5, 0)
