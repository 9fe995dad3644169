"""Exported methods: torch looks for them before a trace, and ends where a property of the module raises.

It reads each attribute of a module to see whether one is a method that the user exports. A property may raise until its
object is complete: that of a LightningModule without a Trainer does. https://github.com/pytorch/pytorch/issues/67146
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._jit_internal import FunctionModifiers, get_torchscript_modifier

_internal: Any = torch._jit_internal  # torch keeps it private


@contextmanager
def pass_over_raising_properties() -> Iterator[None]:
    """Inside, let torch take a property that raises for one that exports nothing."""
    original = _internal.module_has_exports
    _internal.module_has_exports = _has_exports
    try:
        yield
    finally:
        _internal.module_has_exports = original


def _has_exports(module: torch.nn.Module) -> bool:
    return any(
        callable(value) and get_torchscript_modifier(value) is FunctionModifiers.EXPORT for value in _values(module)
    )


def _values(module: torch.nn.Module) -> Iterator[Any]:
    for name in dir(module):
        try:
            value = getattr(module, name)
        except Exception:  # noqa: BLE001 - submitted code
            continue
        yield value
