"""Shapes: what the commonest operators give of tensors without values, asking of the sizes only what eager asks.

What torch itself does for them splits the sizes where nothing changes: at those that choose a kernel of a convolution,
and at 1, where a norm that is taken apart would broadcast.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten


class Shaping(TorchDispatchMode):
    """Within it, operators on tensors without values give what `made` does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return made(func, args, kwargs or {})


def made(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The operator's outputs; torch's own where nothing simpler is known to be the same."""
    shape = None if kwargs else _SHAPES.get(func)
    outputs = None if shape is None else shape(*args)
    return func(*args, **kwargs) if outputs is None else outputs


def _convolution(
    tensor: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],  # noqa: ARG001 - of a transposed one
    groups: int,
    *_: Any,
) -> torch.Tensor | None:
    places = weight.dim() - 2
    if transposed or tensor.dim() != weight.dim() or not _are_plain(tensor, weight):
        return None
    if tensor.shape[1] != weight.shape[1] * groups or (bias is not None and bias.shape[0] != weight.shape[0]):
        return None
    steps, edges, spreads = (_each(value, places) for value in (stride, padding, dilation))
    reaches = [spread * (size - 1) for spread, size in zip(spreads, weight.shape[2:], strict=True)]
    lasts = [size + 2 * edge - reach - 1 for size, edge, reach in zip(tensor.shape[2:], edges, reaches, strict=True)]
    if any(last < 0 for last in lasts):
        return None
    sizes = [last // step + 1 for last, step in zip(lasts, steps, strict=True)]
    return tensor.new_empty([tensor.shape[0], weight.shape[0], *sizes])


def _batch_norm(
    tensor: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    *_: Any,
) -> tuple[torch.Tensor, ...] | None:
    """With running statistics, that is: not of the tensor's own."""
    given = [one for one in (weight, bias, mean, variance) if one is not None]
    if tensor.dim() < 2 or not _are_plain(tensor, *given) or any(one.shape[0] != tensor.shape[1] for one in given):
        return None
    return tensor.new_empty(tensor.shape), tensor.new_empty((0,)), tensor.new_empty((0,))


def _layer_norm(
    tensor: torch.Tensor, sizes: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, *_: Any
) -> tuple[torch.Tensor, ...] | None:
    given = [one for one in (weight, bias) if one is not None]
    kept = tensor.dim() - len(sizes)
    if kept < 0 or not _are_plain(tensor, *given):
        return None
    if any([*one.shape] != [*sizes] for one in given) or [*tensor.shape[kept:]] != [*sizes]:
        return None
    leading = [*tensor.shape[:kept], *(1 for _ in sizes)]
    return tensor.new_empty(tensor.shape), tensor.new_empty(leading), tensor.new_empty(leading)


def _are_plain(*tensors: torch.Tensor) -> bool:
    """Contiguous, on the processor and of one datatype: then so is what is made of them."""
    first = tensors[0]
    return first.device.type == "cpu" and all(one.dtype == first.dtype and one.is_contiguous() for one in tensors)


def _each(value: Sequence[int], places: int) -> Sequence[int]:
    return [*value] * places if len(value) == 1 else value


_SHAPES: dict[Any, Callable[..., Any]] = {
    _aten.convolution.default: _convolution,
    _aten._convolution.default: _convolution,
    _aten._native_batch_norm_legit_no_training.default: _batch_norm,
    _aten.native_layer_norm.default: _layer_norm,
}
