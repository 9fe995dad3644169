"""Shapes: what the commonest operators give of tensors without values, asking of the sizes only what eager asks.

What torch itself does for them splits the sizes where nothing changes: at those that choose a kernel of a convolution,
and at 1, where a norm that is taken apart would broadcast, and an operator element by element might.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.prove.composite_operators import UPSAMPLING
from tracehouse.check.prove.stopping import stop_if_late
from tracehouse.check.prove.symbols import are_same, empty_like, is_fake

_aten = torch.ops.aten
# Set on tensors without values: whether they are contiguous, whatever the sizes.
_PLAIN = "_is_contiguous_at_all_sizes"


class Shaping(TorchDispatchMode):
    """Within it, operators on tensors without values give what `made` does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        stop_if_late()
        return made(func, args, kwargs or {})


def made(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The operator's outputs; torch's own where nothing simpler is known to be the same."""
    shape = None if kwargs and func not in _WITH_KEYWORDS else _SHAPES.get(func)
    outputs = None if shape is None else shape(*args)
    if outputs is not None:
        return outputs
    if torch.Tag.inplace_view in func.tags:
        vars(args[0]).pop(_PLAIN, None)
    return func(*args, **kwargs)


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
    return _new(tensor, [tensor.shape[0], weight.shape[0], *sizes])


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
    return _new(tensor, tensor.shape), _new(tensor, (0,)), _new(tensor, (0,))


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
    return _new(tensor, tensor.shape), _new(tensor, leading), _new(tensor, leading)


def _linear(tensor: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor | None:
    """Contiguous, whatever the operands are."""
    given = [weight] if bias is None else [weight, bias]
    if not tensor.dim() or weight.dim() != 2 or tensor.device.type != "cpu":
        return None
    if not tensor.is_floating_point() or any(one.dtype != tensor.dtype for one in given):
        return None
    if tensor.shape[-1] != weight.shape[1] or (bias is not None and [*bias.shape] != [weight.shape[0]]):
        return None
    return _new(tensor, [*tensor.shape[:-1], weight.shape[0]])


def _of_each(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return _new(tensor, tensor.shape) if _is_of_floats(tensor) else None


def _into_each(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return tensor if _is_of_floats(tensor) else None


def _of_pairs(first: Any, second: Any, *_: Any) -> torch.Tensor | None:
    if not isinstance(first, torch.Tensor) or not _are_alike(first, second):
        return None
    sizes = [*first.shape] if not isinstance(second, torch.Tensor) else _broadcast(first.shape, second.shape)
    return None if sizes is None else _new(first, sizes)


def _into_pairs(first: torch.Tensor, second: Any, *_: Any) -> torch.Tensor | None:
    if not _are_alike(first, second):
        return None
    if isinstance(second, torch.Tensor):
        sizes = _broadcast(first.shape, second.shape)
        if sizes is None or len(sizes) != first.dim() or not all(map(are_same, sizes, first.shape)):
            return None
    return first


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor | None:
    first = tensors[0]
    rank = first.dim()
    if not rank or any(one.dim() != rank for one in tensors) or not _are_plain(*tensors):
        return None
    dim %= rank
    for place, size in enumerate(first.shape):
        if place != dim and not all(are_same(one.shape[place], size) for one in tensors):
            return None
    sizes: list[Any] = [*first.shape]
    sizes[dim] = sum(one.shape[dim] for one in tensors)
    return _new(first, sizes)


def _upsampled(tensor: torch.Tensor, sizes: Sequence[int], *_: Any) -> torch.Tensor | None:
    if tensor.dim() != len(sizes) + 2 or not _is_of_floats(tensor) or any(size < 1 for size in sizes):
        return None
    return _new(tensor, [*tensor.shape[:2], *sizes])


def _are_alike(first: torch.Tensor, second: Any) -> bool:
    """Both give floats of the first's datatype, and in its order."""
    if isinstance(second, torch.Tensor):
        return first.is_floating_point() and _are_plain(first, second)
    return isinstance(second, int | float) and _is_of_floats(first)


def _broadcast(first: Sequence[Any], second: Sequence[Any]) -> list[Any] | None:
    """None where it hangs on the sizes."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    kept = len(longer) - len(shorter)
    sizes = [*longer[:kept]]
    for one, other in zip(longer[kept:], shorter, strict=True):
        if not (_is_one(one) or _is_one(other) or are_same(one, other)):
            return None
        sizes.append(other if _is_one(one) else one)
    return sizes


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def _is_of_floats(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and _are_plain(tensor)


def _new(tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """Of its datatype, contiguous."""
    made = empty_like(tensor, sizes)
    setattr(made, _PLAIN, True)
    return made


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
    # As torch has it: one length after the other.
    outputs = _new(tensor, [tensor.shape[length], tensor.shape[batch], states[0].shape[2] * ways])
    return outputs.transpose(0, 1) if batch_first else outputs, *(_new(one, one.shape) for one in states)


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
    return first.device.type == "cpu" and all(one.dtype == first.dtype and _is_contiguous(one) for one in tensors)


def _is_contiguous(tensor: torch.Tensor) -> bool:
    if not is_fake(tensor):
        return tensor.is_contiguous()
    known: bool | None = vars(tensor).get(_PLAIN)
    if known is None:
        # Where a size is 0 strides do not matter, and torch may have them as if it were 1.
        known = any(all(_has_stride(*dim) for dim in _dims(tensor, least)) for least in (0, 1))
        setattr(tensor, _PLAIN, known)
    return known


def _has_stride(size: Any, stride: Any, expected: Any) -> bool:
    return _is_one(size) or are_same(stride, expected)


def _dims(tensor: torch.Tensor, least: int) -> Iterator[tuple[Any, Any, Any]]:
    """Each with its stride, and that of a contiguous tensor whose sizes are so many at least."""
    expected: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        yield size, stride, expected
        expected = expected * (torch.sym_max(size, least) if least else size)


def _each(value: Sequence[int], places: int) -> Sequence[int]:
    return [*value] * places if len(value) == 1 else value


def _overloads(names: str, overload: str = "default") -> list[Any]:
    return [getattr(getattr(_aten, name), overload) for name in names.split()]


_EACH = "relu silu gelu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu softplus mish exp sqrt rsqrt neg abs"
_EACH_IN_PLACE = "relu_ silu_ gelu_ sigmoid_ tanh_ hardswish_ hardsigmoid_ hardtanh_ leaky_relu_ elu_ mish_"
# Whose keywords change nothing of the shape.
_WITH_KEYWORDS = {*_overloads("add sub add_ sub_", "Tensor"), *_overloads("gelu gelu_")}
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
    _aten.linear.default: _linear,
    **dict.fromkeys(_overloads(_EACH), _of_each),
    **dict.fromkeys(_overloads(_EACH_IN_PLACE), _into_each),
    **dict.fromkeys(_overloads("add sub mul div", "Tensor"), _of_pairs),
    **dict.fromkeys(_overloads("add_ sub_ mul_ div_", "Tensor"), _into_pairs),
    _aten._softmax.default: _of_each,
    _aten.cat.default: _cat,
    **dict.fromkeys(UPSAMPLING, _upsampled),
}
