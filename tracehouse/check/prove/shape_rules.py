"""Shape rules: the results of the commonest operators on tensors without values.

They put hardly more conditions on symbolic sizes than eager puts on real ones. torch's own rules add conditions where
nothing changes: at the sizes that choose a kernel of a convolution, and at size 1, where a norm that is broken into
other operators would broadcast, and an elementwise operator might.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracehouse.check.prove.composite_operators import UPSAMPLING
from tracehouse.check.prove.stopping import stop_if_late
from tracehouse.check.prove.symbolic_layouts import (
    fills_its_memory,
    forget_contiguous,
    is_channels_last,
    is_contiguous,
    is_laid_out_as_new,
    is_one,
    lies_in_order,
    note_contiguous,
    strides_beside_a_number,
    strides_of_elementwise_result,
    strides_of_view,
    suggests_channels_last,
)
from tracehouse.check.prove.symbols import (
    are_equal_computed_sizes,
    are_equal_sizes,
    empty_like,
    has_only_a_layout,
    have_same_expression,
    is_quotient,
    view_of_layout,
)

_aten = torch.ops.aten


class ShapeRuleMode(TorchDispatchMode):
    """A dispatch mode in which operators on tensors without values follow the shape rules."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        stop_if_late()
        return run_operator(func, args, kwargs or {})


def run_operator(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return the operator's outputs by its shape rule; torch runs it where no rule applies to these operands."""
    rule = None if kwargs and func not in _KEYWORDS_KEEP_SHAPES else _RULES.get(func)
    outputs = None if rule is None else rule(*args)
    if func is _aten.clone.default:
        outputs = _clone(*args, **kwargs)
    if outputs is not None:
        return outputs
    if torch.Tag.inplace_view in func.tags:
        forget_contiguous(args[0])
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
    has_channels_last = not is_grouped_product and tensor.dtype == weight.dtype and is_channels_last(tensor)
    is_in_order = _are_contiguous(tensor, weight) or (not is_grouped_product and _lie_in_order(tensor, weight))
    if not (has_channels_last or is_in_order):
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
        return _new_channels_last(tensor, weight.shape[0], sizes)
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
    # The result is contiguous, whatever the layout (`layer_norm_cpu` in torch's layer_norm.cpp).
    if leading_dims < 0 or tensor.device.type != "cpu" or any(one.dtype != tensor.dtype for one in parameters):
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
    return _lay_out(tensor, strides_of_elementwise_result)


def _lay_out(tensor: torch.Tensor, find_strides: Callable[[torch.Tensor], Sequence[Any] | None]) -> torch.Tensor | None:
    """Return a tensor like this one with the strides that are found, if it does not lie in order already."""
    if not _is_float_on_cpu(tensor):
        return None
    if lies_in_order(tensor):
        return _new_contiguous(tensor, tensor.shape)
    strides = find_strides(tensor)
    return None if strides is None else empty_like(tensor, tensor.shape, strides)


def _contiguous_if_in_order(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return _new_contiguous(tensor, tensor.shape) if _is_float_in_order(tensor) else None


def _clone(tensor: torch.Tensor, *, memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor | None:
    """Copy the tensor; torch alone knows the strides of a copy that keeps the layout of one with gaps."""
    if tensor.device.type != "cpu" or not has_only_a_layout(tensor):
        return None
    if memory_format is torch.contiguous_format:
        return _new_contiguous(tensor, tensor.shape)
    keeps_strides = memory_format is torch.preserve_format and fills_its_memory(tensor)
    return empty_like(tensor, tensor.shape, tensor.stride()) if keeps_strides else None


def _roll(tensor: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor | None:
    """Roll a tensor, which torch does by joining two slices of it; where one of them is empty, the result is new."""
    if not dims or not suggests_channels_last(tensor):
        return _contiguous_if_in_order(tensor)
    whole_turns = [bool(shift % tensor.shape[dim] == 0) for shift, dim in zip(shifts, dims, strict=True)]
    is_known = not any(whole_turns) and _is_float_on_cpu(tensor)
    return _new_channels_last(tensor, tensor.shape[1], tensor.shape[2:]) if is_known else None


def _elementwise_in_place(tensor: torch.Tensor, *_: Any) -> torch.Tensor | None:
    return tensor if _is_float_in_order(tensor) else None


def _pairwise(first: Any, second: Any, *_: Any) -> torch.Tensor | None:
    if not isinstance(first, torch.Tensor):
        return None
    if isinstance(second, int | float):
        return _lay_out(first, strides_beside_a_number)
    if isinstance(second, torch.Tensor) and _have_same_layout(first, second):
        return _elementwise(first)
    if not _keeps_dtype_and_layout(first, second):
        return None
    sizes = _broadcast(first.shape, second.shape)
    return None if sizes is None else _new_contiguous(first, sizes)


def _pairwise_in_place(first: torch.Tensor, second: Any, *_: Any) -> torch.Tensor | None:
    if not _keeps_dtype_and_layout(first, second):
        return None
    if isinstance(second, torch.Tensor):
        sizes = _broadcast(first.shape, second.shape)
        if sizes is None or len(sizes) != first.dim() or not all(map(_agree, sizes, first.shape)):
            return None
    return first


def _cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor | None:
    first = tensors[0]
    rank = first.dim()
    if not rank or any(one.dim() != rank for one in tensors) or not _lie_in_order(*tensors):
        return None
    dim %= rank
    for place, size in enumerate(first.shape):
        if place != dim and not all(_agree(one.shape[place], size) for one in tensors):
            return None
    sizes: list[Any] = [*first.shape]
    sizes[dim] = sum(one.shape[dim] for one in tensors)
    return _new_contiguous(first, sizes)


def _upsample(tensor: torch.Tensor, sizes: Sequence[int], *_: Any) -> torch.Tensor | None:
    if tensor.dim() != len(sizes) + 2 or any(size < 1 for size in sizes):
        return None
    if _is_float_in_order(tensor):
        return _new_contiguous(tensor, [*tensor.shape[:2], *sizes])
    return _new_channels_last(tensor, tensor.shape[1], sizes) if is_channels_last(tensor) else None


def _view(tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor | None:
    """Return the tensor in other sizes; if it is contiguous, on the one condition that they have as many elements.

    torch's own rule goes through the dims one by one, with conditions at each: seconds, for long expressions.
    """
    if not has_only_a_layout(tensor):
        return None
    if any(map(_is_left_open, sizes)):
        written = [size for size in sizes if not _is_left_open(size)]
        if prod(written) < 1:
            return None
        sizes = [_divide(tensor.shape, written) if _is_left_open(size) else size for size in sizes]
    if not is_contiguous(tensor):
        strides = strides_of_view(tensor, _as_products(sizes, tensor.shape))
        return None if strides is None else view_of_layout(tensor, sizes, strides, tensor.storage_offset())
    if not are_equal_sizes(prod(sizes), prod(tensor.shape)):
        return None
    strides = [prod(torch.sym_max(size, 1) for size in sizes[place + 1 :]) for place in range(len(sizes))]
    viewed = view_of_layout(tensor, sizes, strides, tensor.storage_offset())
    note_contiguous(viewed)
    return viewed


def _divide(sizes: Sequence[int], by: Sequence[int]) -> int:
    """Return the product of sizes divided by that of others and rounded down.

    Sizes that are the same on both sides are left out first: sympy takes long to divide by what is a product itself.
    """
    rest, divisors = [*sizes], []
    for divisor in by:
        place = next((place for place, size in enumerate(rest) if have_same_expression(size, divisor)), None)
        if place is None:
            divisors.append(divisor)
        else:
            del rest[place]
    number = prod(size for size in divisors if type(size) is int)
    numbers = prod(size for size in rest if type(size) is int)
    if numbers % number == 0:
        rest = [numbers // number, *(size for size in rest if type(size) is not int)]
        divisors = [size for size in divisors if type(size) is not int]
    return prod(rest) // prod(divisors)


def _as_products(sizes: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
    """Return the sizes of a view. If `reshape` divided to find one of them, it is written as a product instead."""
    products = [*sizes]
    for place, size in enumerate(sizes):
        if is_quotient(size):
            product = _divide(elements, [*sizes[:place], *sizes[place + 1 :]])
            if are_equal_sizes(product, size):
                products[place] = product
    return products


def _is_left_open(size: Any) -> bool:
    return type(size) is int and size == -1


def _keeps_dtype_and_layout(first: torch.Tensor, second: Any) -> bool:
    """Whether an elementwise operator on both gives contiguous floats of the first one's datatype."""
    if isinstance(second, torch.Tensor):
        return first.is_floating_point() and _lie_in_order(first, second)
    return isinstance(second, int | float) and _is_float_in_order(first)


def _have_same_layout(first: torch.Tensor, second: torch.Tensor) -> bool:
    pairs = [(first.shape, second.shape), (first.stride(), second.stride())]
    return (first.dtype, first.device, first.dim()) == (second.dtype, second.device, second.dim()) and all(
        have_same_expression(one, other) for ours, theirs in pairs for one, other in zip(ours, theirs, strict=True)
    )


def _broadcast(first: Sequence[Any], second: Sequence[Any]) -> list[Any] | None:
    """Return the shape of both together; None where it depends on the sizes that symbols have."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    leading_dims = len(longer) - len(shorter)
    sizes = [*longer[:leading_dims]]
    for one, other in zip(longer[leading_dims:], shorter, strict=True):
        if not (is_one(one) or is_one(other) or _agree(one, other)):
            return None
        sizes.append(other if is_one(one) else one)
    return sizes


def _agree(one: Any, other: Any) -> bool:
    """Whether two sizes are equal; False where it takes torch to decide that."""
    return have_same_expression(one, other) or are_equal_computed_sizes(one, other)


def _is_float_on_cpu(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.device.type == "cpu"


def _is_float_in_order(tensor: torch.Tensor) -> bool:
    return _is_float_on_cpu(tensor) and lies_in_order(tensor)


def _new_contiguous(tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """Return a contiguous tensor of these sizes and of the tensor's datatype."""
    contiguous = empty_like(tensor, sizes)
    note_contiguous(contiguous)
    return contiguous


def _new_channels_last(tensor: torch.Tensor, channels: Any, sizes: Sequence[Any]) -> torch.Tensor:
    """Return images of these sizes, as many as in the tensor, whose channels are innermost in memory."""
    return _new_contiguous(tensor, [tensor.shape[0], *sizes, channels]).permute(0, 3, 1, 2)


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


def _lie_in_order(*tensors: torch.Tensor) -> bool:
    """Whether the tensors are on the CPU, of one datatype, and lie in order.

    Then the result of an elementwise operator is contiguous.
    """
    first = tensors[0]
    return first.device.type == "cpu" and all(one.dtype == first.dtype and lies_in_order(one) for one in tensors)


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
    _aten._softmax.default: _contiguous_if_in_order,
    _aten.roll.default: _roll,
    _aten.cat.default: _cat,
    **dict.fromkeys(_overloads("view _unsafe_view"), _view),
    **dict.fromkeys(UPSAMPLING, _upsample),
}
