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


def _recurrent(
    tensor: torch.Tensor,
    state: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    _: bool,
    layers: int,
    __: float,
    ___: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Of a batch, that is: not the packed one."""
    states = [state] if isinstance(state, torch.Tensor) else [*state]
    if tensor.dim() != 3 or any(one.dim() != 3 for one in states):
        return None
    batch, length = (0, 1) if batch_first else (1, 0)
    ways = 2 if bidirectional else 1
    if any(one.shape[0] != layers * ways or one.shape[1] != tensor.shape[batch] for one in states):
        return None
    # The first is of the outputs' width; of a cell without a projection so is the second.
    widths = [weights[1].shape[1], weights[1].shape[0] // 4]
    if tensor.shape[2] != weights[0].shape[1] or any(
        one.shape[2] != width for one, width in zip(states, widths, strict=False)
    ):
        return None
    if tensor.shape[length] < 1:
        return None
    outputs = tensor.new_empty([*tensor.shape[:2], states[0].shape[2] * ways])
    return outputs, *(one.new_empty(one.shape) for one in states)


def _affine_grid(theta: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor | None:
    """Of pictures, and of volumes."""
    places = len(size) - 2
    if places not in (2, 3) or theta.dim() != 3 or not theta.is_floating_point():
        return None
    if theta.shape[0] != size[0] or theta.shape[1] != places or theta.shape[2] != places + 1:
        return None
    return theta.new_empty([size[0], *size[2:], places])


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
    _aten.gru.input: _recurrent,
    _aten.lstm.input: _recurrent,
    _aten.rnn_tanh.input: _recurrent,
    _aten.rnn_relu.input: _recurrent,
    _aten.affine_grid_generator.default: _affine_grid,
}
