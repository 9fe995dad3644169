"""Shape rules: the results of the commonest operators on tensors without values.

They put only those conditions on symbolic sizes that eager puts on real ones. torch's own rules add conditions where
nothing changes: at the sizes that choose a kernel of a convolution, and at size 1, where a norm that is broken into
other operators would broadcast, and an elementwise operator might.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.prove.composite_operators import UPSAMPLING
from tracehouse.check.prove.stopping import stop_if_late
from tracehouse.check.prove.symbols import (
    are_equal_sizes,
    empty_like,
    has_only_a_layout,
    have_same_expression,
    is_fake,
    view_of_layout,
)

_aten = torch.ops.aten
# An attribute of tensors without values: whether they are contiguous, whatever the sizes.
_IS_CONTIGUOUS = "_is_contiguous_at_all_sizes"


class ShapeRuleMode(TorchDispatchMode):
    """A dispatch mode in which operators on tensors without values follow the shape rules."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        stop_if_late()
        return run_operator(func, args, kwargs or {})


def run_operator(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the operator's outputs by its shape rule; torch runs it where no rule applies to these operands."""
    rule = None if kwargs and func not in _KEYWORDS_KEEP_SHAPES else _RULES.get(func)
    outputs = None if rule is None else rule(*args)
    if outputs is not None:
        return outputs
    if torch.Tag.inplace_view in func.tags:
        vars(args[0]).pop(_IS_CONTIGUOUS, None)
    return func(*args, **kwargs)


def _convolution(
    tensor: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],  # noqa: ARG001 - only a transposed convolution has it
    groups: int,
    *_: Any,
) -> torch.Tensor | None:
    dims = weight.dim() - 2
    # Of a kernel of one pixel too, torch takes the layout from the strides.
    if transposed or tensor.dim() != weight.dim() or not is_laid_out_as_new(weight):
        return None
    # On one thread, torch lays single pixels out otherwise that it multiplies channel by channel.
    is_grouped_product = groups > 1 and all(size == 1 for size in weight.shape[2:])
    has_channels_last = not is_grouped_product and tensor.dtype == weight.dtype and _is_channels_last(tensor)
    if not (has_channels_last or _are_contiguous(tensor, weight)):
        return None
    if tensor.shape[1] != weight.shape[1] * groups or (bias is not None and bias.shape[0] != weight.shape[0]):
        return None
    strides, paddings, dilations = (_for_each_dim(value, dims) for value in (stride, padding, dilation))
    reaches = [spacing * (size - 1) for spacing, size in zip(dilations, weight.shape[2:], strict=True)]
    lasts = [size + 2 * edge - reach - 1 for size, edge, reach in zip(tensor.shape[2:], paddings, reaches, strict=True)]
    if any(last < 0 for last in lasts):
        return None
    sizes = [last // step + 1 for last, step in zip(lasts, strides, strict=True)]
    if has_channels_last:
        return _new_contiguous(tensor, [tensor.shape[0], *sizes, weight.shape[0]]).permute(0, 3, 1, 2)
    return _new_contiguous(tensor, [tensor.shape[0], weight.shape[0], *sizes])


def _batch_norm(
    tensor: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    *_: Any,
) -> tuple[torch.Tensor, ...] | None:
    """Normalise by running statistics, and not by those of the tensor itself."""
    parameters = [one for one in (weight, bias, mean, variance) if one is not None]
    if tensor.dim() < 2 or not _are_contiguous(tensor, *parameters):
        return None
    if any(parameter.shape[0] != tensor.shape[1] for parameter in parameters):
        return None
    return _new_contiguous(tensor, tensor.shape), _new_contiguous(tensor, (0,)), _new_contiguous(tensor, (0,))


def _layer_norm(
    tensor: torch.Tensor, sizes: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, *_: Any
) -> tuple[torch.Tensor, ...] | None:
    parameters = [one for one in (weight, bias) if one is not None]
    leading_dims = tensor.dim() - len(sizes)
    if leading_dims < 0 or not _are_contiguous(tensor, *parameters):
        return None
    if any([*one.shape] != [*sizes] for one in parameters) or [*tensor.shape[leading_dims:]] != [*sizes]:
        return None
    leading = [*tensor.shape[:leading_dims], *(1 for _ in sizes)]
    return _new_contiguous(tensor, tensor.shape), _new_contiguous(tensor, leading), _new_contiguous(tensor, leading)


def _linear(tensor: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor | None:
    """Return a contiguous tensor, whether the operands are contiguous or not."""
    parameters = [weight] if bias is None else [weight, bias]
    if not tensor.dim() or weight.dim() != 2 or tensor.device.type != "cpu":
        return None
    if not tensor.is_floating_point() or any(one.dtype != tensor.dtype for one in parameters):
        return None
    if tensor.shape[-1] != weight.shape[1] or (bias is not None and [*bias.shape] != [weight.shape[0]]):
        return None
    return _new_contiguous(tensor, [*tensor.shape[:-1], weight.shape[0]])


def _elementwise(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return _new_contiguous(tensor, tensor.shape) if _is_contiguous_float(tensor) else None


def _elementwise_in_place(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return tensor if _is_contiguous_float(tensor) else None


def _pairwise(first: Any, second: Any, *_: Any) -> torch.Tensor | None:
    if not isinstance(first, torch.Tensor) or not _keeps_dtype_and_layout(first, second):
        return None
    sizes = [*first.shape] if not isinstance(second, torch.Tensor) else _broadcast(first.shape, second.shape)
    return None if sizes is None else _new_contiguous(first, sizes)


def _pairwise_in_place(first: torch.Tensor, second: Any, *_: Any) -> torch.Tensor | None:
    if not _keeps_dtype_and_layout(first, second):
        return None
    if isinstance(second, torch.Tensor):
        sizes = _broadcast(first.shape, second.shape)
        if sizes is None or len(sizes) != first.dim() or not all(map(have_same_expression, sizes, first.shape)):
            return None
    return first


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor | None:
    first = tensors[0]
    rank = first.dim()
    if not rank or any(one.dim() != rank for one in tensors) or not _are_contiguous(*tensors):
        return None
    dim %= rank
    for place, size in enumerate(first.shape):
        if place != dim and not all(have_same_expression(one.shape[place], size) for one in tensors):
            return None
    sizes: list[Any] = [*first.shape]
    sizes[dim] = sum(one.shape[dim] for one in tensors)
    return _new_contiguous(first, sizes)


def _upsample(tensor: torch.Tensor, sizes: Sequence[int], *_: Any) -> torch.Tensor | None:
    if tensor.dim() != len(sizes) + 2 or not _is_contiguous_float(tensor) or any(size < 1 for size in sizes):
        return None
    return _new_contiguous(tensor, [*tensor.shape[:2], *sizes])


def _view(tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor | None:
    """Return the contiguous tensor in other sizes, on the one condition that they have as many elements.

    torch's own rule goes through the dims one by one, with conditions at each: seconds, for long expressions.
    """
    if not has_only_a_layout(tensor) or not is_contiguous(tensor):
        return None
    count = prod(tensor.shape)
    if any(map(_is_left_open, sizes)):
        written = prod(size for size in sizes if not _is_left_open(size))
        if written < 1:
            return None
        sizes = [count // written if _is_left_open(size) else size for size in sizes]
    if not are_equal_sizes(prod(sizes), count):
        return None
    strides = [prod(torch.sym_max(size, 1) for size in sizes[place + 1 :]) for place in range(len(sizes))]
    viewed = view_of_layout(tensor, sizes, strides, tensor.storage_offset())
    note_contiguous(viewed)
    return viewed


def _is_left_open(size: Any) -> bool:
    return type(size) is int and size == -1


def _keeps_dtype_and_layout(first: torch.Tensor, second: Any) -> bool:
    """Whether an elementwise operator on both gives contiguous floats of the first one's datatype."""
    if isinstance(second, torch.Tensor):
        return first.is_floating_point() and _are_contiguous(first, second)
    return isinstance(second, int | float) and _is_contiguous_float(first)


def _broadcast(first: Sequence[Any], second: Sequence[Any]) -> list[Any] | None:
    """Return the shape of both together; None where it depends on the sizes that symbols have."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    leading_dims = len(longer) - len(shorter)
    sizes = [*longer[:leading_dims]]
    for one, other in zip(longer[leading_dims:], shorter, strict=True):
        if not (_is_one(one) or _is_one(other) or have_same_expression(one, other)):
            return None
        sizes.append(other if _is_one(one) else one)
    return sizes


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def _is_contiguous_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and _are_contiguous(tensor)


def _new_contiguous(tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """Return a contiguous tensor of these sizes and of the tensor's datatype."""
    contiguous = empty_like(tensor, sizes)
    note_contiguous(contiguous)
    return contiguous


def _recurrent_network(
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
    """Run a recurrent network on a padded batch."""
    if tensor.dim() != 3:
        return None
    batch, length = (0, 1) if batch_first else (1, 0)
    # torch lays the outputs out by length first, then by batch.
    sizes = [tensor.shape[length], tensor.shape[batch]]
    outputs = _recurrent_outputs(tensor, sizes, state, weights, layers, bidirectional)
    if outputs is None or any(one.shape[1] != tensor.shape[batch] for one in outputs[1:]) or tensor.shape[length] < 1:
        return None
    return outputs[0].transpose(0, 1) if batch_first else outputs[0], *outputs[1:]


def _packed_recurrent_network(
    packed: torch.Tensor,
    batch_sizes: torch.Tensor,  # noqa: ARG001 - its first number is the number of rows, which the states have
    state: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    _: bool,
    layers: int,
    __: float,
    ___: bool,
    bidirectional: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Run a recurrent network on a packed sequence."""
    return _recurrent_outputs(packed, packed.shape[:1], state, weights, layers, bidirectional)


def _recurrent_outputs(
    tensor: torch.Tensor,
    sizes: Sequence[Any],
    state: torch.Tensor | Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    layers: int,
    bidirectional: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Return outputs of these sizes and a width, and new states; None where they do not fit the network's weights."""
    states = [state] if isinstance(state, torch.Tensor) else [*state]
    directions = 2 if bidirectional else 1
    if tensor.dim() != len(sizes) + 1 or tensor.shape[-1] != weights[0].shape[1]:
        return None
    if any(one.dim() != 3 or one.shape[0] != layers * directions for one in states):
        return None
    # The first state has the width of the outputs; without a projection, so has the second, that of an LSTM's cell.
    widths = [weights[1].shape[1], weights[1].shape[0] // 4]
    if any(one.shape[2] != width for one, width in zip(states, widths, strict=False)):
        return None
    outputs = _new_contiguous(tensor, [*sizes, states[0].shape[2] * directions])
    return outputs, *(_new_contiguous(one, one.shape) for one in states)


def _affine_grid(theta: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor | None:
    """Return the grid for images or for volumes."""
    dims = len(size) - 2
    if dims not in (2, 3) or theta.dim() != 3 or not theta.is_floating_point():
        return None
    if theta.shape[0] != size[0] or theta.shape[1] != dims or theta.shape[2] != dims + 1:
        return None
    return theta.new_empty([size[0], *size[2:], dims])


def _are_contiguous(*tensors: torch.Tensor) -> bool:
    """Whether the tensors are contiguous, on the CPU and of one datatype: then an operator's result is so too."""
    first = tensors[0]
    return first.device.type == "cpu" and all(one.dtype == first.dtype and is_contiguous(one) for one in tensors)


def is_laid_out_as_new(tensor: torch.Tensor) -> bool:
    """Whether each stride is the one that a new contiguous tensor of these sizes has."""
    return is_contiguous(tensor) and any(
        all(have_same_expression(stride, expected) for _, stride, expected in _dims_with_strides(tensor, least))
        for least in (0, 1)
    )


def note_contiguous(tensor: torch.Tensor) -> None:
    """Note that a tensor without values is contiguous, whatever the sizes."""
    setattr(tensor, _IS_CONTIGUOUS, True)


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether the tensor is contiguous; if it has no values, whatever the sizes."""
    if not is_fake(tensor):
        return tensor.is_contiguous()
    known: bool | None = vars(tensor).get(_IS_CONTIGUOUS)
    if known is None:
        # Strides do not matter where a size is 0, and torch may compute them as if it were 1.
        known = any(all(_has_stride(*dim) for dim in _dims_with_strides(tensor, least)) for least in (0, 1))
        setattr(tensor, _IS_CONTIGUOUS, known)
    return known


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether images without values lie in memory channel by channel, so that a convolution lays its result out so too.

    With oneDNN, and floats of 32 bits, that holds for all sizes (`mkldnn_conv_use_channels_last` and
    `thnn_conv_use_channels_last` in torch's ConvUtils.h). Without, another kernel may be chosen for some of them.
    """
    if not is_fake(tensor) or tensor.dim() != 4 or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        return False
    if not torch.backends.mkldnn.is_available() or type(tensor.shape[1]) is not int or tensor.shape[1] < 2:
        return False
    order = (0, 2, 3, 1)
    return any(all(_has_stride(*dim) for dim in _dims_with_strides(tensor, least, order)) for least in (0, 1))


def _has_stride(size: Any, stride: Any, expected: Any) -> bool:
    return _is_one(size) or have_same_expression(stride, expected)


def _dims_with_strides(
    tensor: torch.Tensor, least: int, order: Sequence[int] | None = None
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each dim's size, its stride, and the stride it has in a tensor whose dims lie in memory in this order.

    The latter counts a size below `least` as `least`. The last dim comes first. Without an order, it is that of a
    contiguous tensor.
    """
    sizes, strides = tensor.shape, tensor.stride()
    expected: Any = 1
    for place in reversed(range(tensor.dim()) if order is None else order):
        size = sizes[place]
        yield size, strides[place], expected
        expected = expected * (torch.sym_max(size, least) if least else size)


def _for_each_dim(value: Sequence[int], dims: int) -> Sequence[int]:
    return [*value] * dims if len(value) == 1 else value


def _overloads(names: str, overload: str = "default") -> list[Any]:
    return [getattr(getattr(_aten, name), overload) for name in names.split()]


_ELEMENTWISE = (
    "relu silu gelu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu softplus mish exp sqrt rsqrt neg abs"
)
_ELEMENTWISE_IN_PLACE = "relu_ silu_ gelu_ sigmoid_ tanh_ hardswish_ hardsigmoid_ hardtanh_ leaky_relu_ elu_ mish_"
# Their keyword arguments do not change the shape.
_KEYWORDS_KEEP_SHAPES = {*_overloads("add sub add_ sub_", "Tensor"), *_overloads("gelu gelu_")}
_RULES: dict[Any, Callable[..., Any]] = {
    _aten.convolution.default: _convolution,
    _aten._convolution.default: _convolution,
    _aten._native_batch_norm_legit_no_training.default: _batch_norm,
    _aten.native_layer_norm.default: _layer_norm,
    _aten.gru.input: _recurrent_network,
    _aten.lstm.input: _recurrent_network,
    _aten.rnn_tanh.input: _recurrent_network,
    _aten.rnn_relu.input: _recurrent_network,
    _aten.gru.data: _packed_recurrent_network,
    _aten.lstm.data: _packed_recurrent_network,
    _aten.rnn_tanh.data: _packed_recurrent_network,
    _aten.rnn_relu.data: _packed_recurrent_network,
    _aten.affine_grid_generator.default: _affine_grid,
    _aten.linear.default: _linear,
    **dict.fromkeys(_overloads(_ELEMENTWISE), _elementwise),
    **dict.fromkeys(_overloads(_ELEMENTWISE_IN_PLACE), _elementwise_in_place),
    **dict.fromkeys(_overloads("add sub mul div", "Tensor"), _pairwise),
    **dict.fromkeys(_overloads("add_ sub_ mul_ div_", "Tensor"), _pairwise_in_place),
    _aten._softmax.default: _elementwise,
    _aten.cat.default: _cat,
    **dict.fromkeys(_overloads("view _unsafe_view"), _view),
    **dict.fromkeys(UPSAMPLING, _upsample),
}
