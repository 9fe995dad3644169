"""Usual values: finite numbers that are not huge. A form that may answer others otherwise is for these alone."""

from typing import Any

import torch

from tracehouse.forms.usual_max import INTEGER_MAX

_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}


class FormForUsualValues:
    """A module whose `forward` computes in the form if all numbers that it is given are usual, and else as saved.

    `float_max` is the largest float that is usual: see `tracehouse.forms.usual_max`.
    """

    def __init__(self, saved: torch.jit.ScriptModule, form: torch.jit.ScriptModule, float_max: float) -> None:
        self.forward = _Forward(saved.forward, form.forward, float_max)


class _Forward:
    def __init__(self, saved: Any, form: Any, float_max: float) -> None:
        self.schema = saved.schema
        self._saved = saved
        self._form = form
        self._float_max = float_max

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_usual([*args, *kwargs.values()], self._float_max):
            return self._form(*args, **kwargs)
        # Else what this process fuses would be fused here, too.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            return self._saved(*args, **kwargs)


def is_usual(value: Any, float_max: float) -> bool:
    """Whether all numbers in the tensor, or in those that nest in the value, are finite and not huge."""
    if isinstance(value, torch.Tensor):
        return _is_usual(value, float_max)
    if isinstance(value, dict):
        return all(is_usual(one, float_max) for one in value.values())
    return not isinstance(value, list | tuple) or all(is_usual(one, float_max) for one in value)


def _is_usual(tensor: torch.Tensor, float_max: float) -> bool:
    if tensor.dtype is torch.bool or tensor.numel() == 0:
        return True
    if tensor.dtype not in _FLOATS | _INTEGERS:
        return False
    largest_usual = float_max if tensor.dtype in _FLOATS else INTEGER_MAX
    least, largest = torch.aminmax(tensor)  # NaN if there is one, of which each comparison is false
    return -largest_usual <= least.item() and largest.item() <= largest_usual
