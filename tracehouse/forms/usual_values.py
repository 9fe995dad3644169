"""Usual values: finite numbers that are not huge. A form that may answer others otherwise is for these alone."""

from collections.abc import Iterable

import torch

from tracehouse.forms.usual_max import INTEGER_MAX

# FP16 is none: what its numbers are multiplied with soon makes them infinite.
_FLOATS = {torch.bfloat16, torch.float32, torch.float64}
_INTEGERS = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}


def are_usual(tensors: Iterable[torch.Tensor], float_max: float) -> bool:
    """Whether all their numbers are finite and not huge: `float_max` is the largest float that is usual."""
    return all(_is_usual(one, float_max) for one in tensors)


def _is_usual(tensor: torch.Tensor, float_max: float) -> bool:
    if tensor.dtype is torch.bool or tensor.numel() == 0:
        return True
    if tensor.dtype not in _FLOATS | _INTEGERS:
        return False
    largest_usual = float_max if tensor.dtype in _FLOATS else INTEGER_MAX
    least, largest = torch.aminmax(tensor)  # NaN if there is one, of which each comparison is false
    return -largest_usual <= least.item() and largest.item() <= largest_usual
