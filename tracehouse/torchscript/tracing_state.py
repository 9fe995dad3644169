"""The tracing state: torch's tracer loses it where an operator raises. If the model goes on, the process would end.

torch's kernels put the state aside while an operator computes, and do not put it back if the operator raises.
"""

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress
from inspect import Parameter, Signature, signature
from types import MethodType
from typing import Any

import torch

from tracehouse.errors import ErrorCaughtInTrace

_C: Any = torch._C  # torch keeps these functions private


def keep_tracing_state(module: torch.nn.Module, methods: Iterable[str]) -> None:
    """Let these methods of the module raise ErrorCaughtInTrace where they lost the state of a trace.

    The module itself is changed.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return  # its methods are not traced in Python
    for method in methods:
        module.__dict__[method] = MethodType(_keep_state(getattr(module, method)), module)


def _keep_state(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(_: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        state = _C._get_tracing_state()
        try:
            outputs = original(*args, **kwargs)
        finally:
            is_lost = state is not None and _C._get_tracing_state() is None
            if is_lost:
                _C._set_tracing_state(state)
        if is_lost:
            raise ErrorCaughtInTrace(
                "an operator raised an error during the trace, and the model caught it: from there on, torch's tracer "
                "records nothing"
            )
        return outputs

    # torch takes the names of the inputs from this signature, and skips the first one, which is the module.
    with suppress(ValueError):  # a builtin function has none
        parameters = signature(original).parameters.values()
        own = Parameter("self", Parameter.POSITIONAL_ONLY)
        run.__signature__ = Signature([own, *parameters])  # type: ignore[attr-defined]
    return run
