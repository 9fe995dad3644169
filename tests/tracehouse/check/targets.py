"""Subjects of the check, made in this process: a model, its example, and the artifact traced or scripted from it."""

import warnings
from typing import Any

import torch

from tracehouse.check.oracle import EagerOracle
from tracehouse.check.target import Target
from tracehouse.eager.call import bind
from tracehouse.eager.model import Model


def target_of(module: torch.nn.Module, *args: Any, scripted: bool = False) -> Target:
    module.eval()
    model = Model(module)
    call = bind(module, "forward", "forward", args, {})
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        if scripted:
            artifact = torch.jit.script(model.fresh())
        else:
            artifact = torch.jit.trace(model.fresh(), call.cloned().handed_over(), check_trace=False, strict=False)
    return Target(
        model=model,
        call=call.as_scripted() if scripted else call,
        eager=EagerOracle(model, 0),
        artifact=artifact,
        form="scripted" if scripted else "traced",
        retrace=None,
        tolerance=1e-5,
        seed=0,
    )
