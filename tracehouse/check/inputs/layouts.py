"""Layouts: the example's own values as no inference request has them.

A served artifact gets contiguous tensors that require no gradient, and gradients are disabled while it answers. Whoever
loads the archive may call it otherwise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from tracehouse.differential.case_names import name_probe
from tracehouse.eager.call import Call


@dataclass(frozen=True)
class LayoutCase:
    """A call, and the same values in another layout.

    `with_gradients` says whether gradients are enabled for that. With `has_equal_rows`, answers may be nothing but
    rounding, as where a model divides by the spread of its rows.
    """

    name: str
    plain: Call
    laid_out: Call
    with_gradients: bool = False
    has_equal_rows: bool = False


def vary_layouts(example: Call) -> Iterator[LayoutCase]:
    """Yield a case for each layout that some input of the example can have."""
    for name, can_have, lay_out in _LAYOUTS:
        if any(can_have(tensor) for tensor in example.tensors.values()):
            laid_out = example.copied_by(_where(can_have, lay_out))
            yield LayoutCase(name_probe(f"inputs {name}"), example, laid_out)
    if any(_is_large(tensor) for tensor in example.tensors.values()):
        repeated = example.changed(_where(_is_large, lambda tensor: _repeat_first(tensor).contiguous()))
        laid_out = repeated.copied_by(_where(_is_large, _repeat_first))
        yield LayoutCase(name_probe("inputs expanded from one row"), repeated, laid_out, has_equal_rows=True)
    yield LayoutCase(name_probe("gradients enabled"), example, example, with_gradients=True)
    for name, lay_out in _WITH_GRADIENTS:
        if any(tensor.is_floating_point() for tensor in example.tensors.values()):
            laid_out = example.copied_by(_where(torch.is_floating_point, lay_out))
            yield LayoutCase(name_probe(f"inputs {name}"), example, laid_out, with_gradients=True)


_Copy = Callable[[torch.Tensor], torch.Tensor]


def _where(can_have: Callable[[torch.Tensor], bool], lay_out: _Copy) -> _Copy:
    return lambda tensor: lay_out(tensor) if can_have(tensor) else tensor.clone()


def _is_large(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 1


def _has_elements(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0


def _has_channels(tensor: torch.Tensor) -> bool:
    return tensor.dim() in _CHANNELS_LAST and _is_large(tensor)


def _can_be_negated(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and _has_elements(tensor)


def _reorder(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with the last dim as the slowest in memory or, if it is the only one, with gaps in it."""
    if sum(size > 1 for size in tensor.shape) > 1:
        return tensor.movedim(-1, 0).clone(memory_format=torch.contiguous_format).movedim(0, -1)
    with_gaps = tensor.new_empty((*tensor.shape, 2))[..., 0]
    return with_gaps.copy_(tensor)


def _put_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=_CHANNELS_LAST[tensor.dim()])


def _slice(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as what is left of a larger one without its first element."""
    return tensor.new_zeros(tensor.numel() + 1)[1:].view(tensor.shape).copy_(tensor)


def _negate_twice(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as what torch has yet to negate, such as the imaginary part of a conjugate."""
    return torch._neg_view(torch.neg(tensor))


def _repeat_first(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's first part along its first dim that has several, in place of all others."""
    dim = next(dim for dim, size in enumerate(tensor.shape) if size > 1)
    return tensor.narrow(dim, 0, 1).clone().expand_as(tensor)


def _compute(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor as the result of an operator that has a gradient."""
    with torch.enable_grad():
        return tensor.detach().clone().requires_grad_().clone()


def _make_parameter(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(tensor.detach().clone())


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_LAYOUTS: list[tuple[str, Callable[[torch.Tensor], bool], _Copy]] = [
    ("in another order in memory", _is_large, _reorder),
    ("with channels last", _has_channels, _put_channels_last),
    ("that are parts of larger tensors", _has_elements, _slice),
    ("that are yet to be negated", _can_be_negated, _negate_twice),
]
_WITH_GRADIENTS: list[tuple[str, _Copy]] = [
    ("that are parameters", _make_parameter),
    ("computed with gradients", _compute),
]
