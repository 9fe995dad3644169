"""Whole operators: of those that torch takes apart, step by step along a length, each is seen as the one that it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import DispatchKey

_aten = torch.ops.aten
_WHOLE = (_aten.gru.input, _aten.lstm.input, _aten.rnn_tanh.input, _aten.rnn_relu.input)


@contextmanager
def whole() -> Iterator[None]:
    """Within it they come to dispatch modes, where torch's dispatcher for Python is on."""
    for operator in _WHOLE:
        operator.py_kernels[DispatchKey.AutogradCPU] = _below_autograd(operator)
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator in _WHOLE:
            operator.py_kernels.pop(DispatchKey.AutogradCPU, None)
            operator._dispatch_cache.clear()


def _below_autograd(operator: Any) -> Callable[..., Any]:
    """Autograd is where it would be taken apart."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*args, **kwargs)

    return run
