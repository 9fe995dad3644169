"""Run where every child is forked from: what is sent to cuda stays on the processor, so that what carries artifacts of
two devices can be tried where there is no GPU."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def with_cpu(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_cpu, args), **{name: _cpu(value) for name, value in kwargs.items()})

    return with_cpu


def _cpu(value: Any) -> Any:
    return "cpu" if isinstance(value, str) and value == "cuda" else value


torch.Tensor.to = _on_cpu(torch.Tensor.to)  # type: ignore[method-assign]
torch.nn.Module.to = _on_cpu(torch.nn.Module.to)  # type: ignore[method-assign]
torch.jit.load = _on_cpu(torch.jit.load)
