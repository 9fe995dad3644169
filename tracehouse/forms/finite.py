"""Finite numbers: whether an archive makes only finite numbers of finite ones that are not huge.

Some forms answer otherwise where a NaN comes up on the way. oneDNN's fused rectifier makes 0 of it, so that the answer
looks right. An archive that makes no NaN by itself has such a form for usual values.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from tracehouse.forms.operators import TO_THE_END, held_values, is_in_place, known_of, name_of
from tracehouse.forms.sizes import find_emptying
from tracehouse.forms.usual_max import FLOAT_MAX

# A larger number in a graph or among its weights stands for infinity, such as the lowest float in a mask. Chosen.
_LARGEST = 1e10
_HALF_CODE = 5  # of torch's datatypes in a graph: FP16, of which 65504 is the largest
# Where numbers that grew are multiplied with each other, at most so many digits come up before the decimal point: the
# largest float has 38, and weights and sums have room for the others. Chosen.
_DIGITS_MAX = 25.0
_DIGITS_OF_INPUTS = math.log10(FLOAT_MAX)
# softplus takes `exp` of numbers up to its threshold: beyond 88 that is none. Chosen.
_SOFTPLUS_THRESHOLD_MAX = 80.0
# What is smaller may be 0 as a float, and is nothing that keeps a divisor from being 0. Chosen: some models have 1e-12.
_EPSILON_MIN = 1e-15
_POWER_MAX = 3

# They sum up products of numbers with weights, or with each other.
_WEIGHTED = {
    *("linear", "addmm", "matmul", "mm", "bmm", "baddbmm", "addbmm", "mv", "dot", "einsum", "outer", "bilinear"),
    *("_convolution", "convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
    *("conv_transpose3d", "prelu", "batch_norm", "instance_norm"),
}
_SCALED = {"mul", "addcmul", "lerp"}
# They compute squares, but what they give is no larger than their weights make of 1.
_LAYER_NORMS = {"layer_norm", "group_norm"}
# What they give is no larger than 1, or than their states.
_BOUNDED = {
    *("softmax", "sigmoid", "tanh", "hardsigmoid", "softsign", "erf", "sin", "cos", "one_hot"),
    *("lstm", "gru", "rnn_tanh", "lstm_cell", "gru_cell"),
}
_MEANS = {"mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"}
# They give the memory of what they are given.
_VIEWS = {
    *("view", "reshape", "flatten", "unflatten", "slice", "select", "narrow", "transpose", "t", "permute", "squeeze"),
    *("unsqueeze", "expand", "expand_as", "chunk", "split", "split_with_sizes", "unbind", "contiguous", "detach"),
    *("alias", "diagonal", "movedim", "mT", "numpy_T", "swapaxes", "broadcast_to", "type_as", "to", "view_as"),
    *("reshape_as", "__getitem__", "lift_fresh", "dropout", "feature_dropout"),
}
# What they give is finite if what they are given is, and of the same order, or grows with it as weights make it grow.
_FINITE = {
    *(_WEIGHTED | _SCALED | _LAYER_NORMS | _BOUNDED | _MEANS | _VIEWS),
    *("embedding", "rnn_relu", "scaled_dot_product_attention", "max_pool1d", "max_pool2d", "max_pool3d", "add"),
    *("sub", "rsub", "neg", "abs", "square", "sum", "cumsum", "maximum", "minimum", "amax", "amin", "max", "min"),
    *("sort", "topk", "clamp", "clamp_min", "clamp_max", "relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu"),
    *("celu", "gelu", "silu", "mish", "hardswish", "softplus", "log_sigmoid", "glu", "threshold", "hardshrink"),
    *("softshrink", "tanhshrink", "log_softmax", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_max_pool1d"),
    *("adaptive_max_pool2d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d"),
    *("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "pixel_shuffle", "pixel_unshuffle"),
    *("channel_shuffle", "repeat", "repeat_interleave", "tile", "cat", "stack", "flip", "roll", "clone", "index"),
    *("index_select", "gather", "masked_select", "masked_fill", "where", "copy", "fill", "tril", "triu", "pad"),
    *("constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "zeros"),
    *("ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "arange"),
    *("lift_fresh_copy", "size", "dim", "numel", "len", "ScalarImplicit", "Int", "IntImplicit", "eq", "ne", "lt"),
    *("le", "gt", "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"),
    *("__and__", "__or__"),
}
# Nodes that hand on what they are given.
_PRIM_VIEWS = {
    *("prim::ListConstruct", "prim::ListUnpack", "prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex"),
    "prim::unchecked_cast",
}
# Nodes that compute nothing.
_PRIM = {
    *_PRIM_VIEWS,
    *("prim::DictConstruct", "prim::NumToTensor", "prim::dtype", "prim::device", "prim::layout", "prim::GetAttr"),
    "prim::Constant",
}


_Known = dict[str, Any]


@dataclass(frozen=True)
class _Value:
    """What is known of a value, in all calls.

    `digits`: how many stand before the decimal point of its largest number, as far as factors make it large.
    `is_held`: it is in the memory of what the archive holds.
    """

    digits: float
    is_held: bool = False


def find_nan_source(module: torch.jit.ScriptModule) -> str | None:
    """Return what in the graph of `forward`, without blocks, may make a NaN of usual values; None if nothing does.

    Usual values are those of `tracehouse.forms.usual_values`. Numbers that weights and sums make grow beyond the
    largest float are not looked for.
    """
    held = held_values(module)
    if not all(_is_small(one) for value in held.values() for one in _ends(value)):
        return "a number that is not finite, or stands for infinity"
    emptying = find_emptying(module)
    graph = module.inlined_graph
    values = {one.debugName(): _Value(_DIGITS_OF_INPUTS) for one in graph.inputs()}
    values |= {name: _Value(_digits_of(value), is_held=True) for name, value in held.items()}
    for node in graph.nodes():
        names, name = [one.debugName() for one in node.outputs()], name_of(node)
        if held.keys() >= {*names}:
            continue
        if not _keeps_finite(node, held):
            return node.kind()
        if name in _MEANS and emptying is not None:
            return f"{node.kind()} of what {emptying} may make empty"
        given = [values[one.debugName()] for one in node.inputs()]
        if is_in_place(node) and given[0].is_held:
            return f"{node.kind()} on what the archive holds"
        most = _most_digits(node, given)
        if most > _DIGITS_MAX:
            return f"{node.kind()} of numbers that may be huge"
        digits = _digits(node, given, held, most)
        if is_in_place(node):  # others may be in the same memory
            values = {one: replace(value, digits=max(value.digits, digits)) for one, value in values.items()}
        viewed = given if node.kind() in _PRIM_VIEWS else given[:1] if name in _VIEWS else []
        result = _Value(digits, is_held=any(one.is_held for one in viewed))
        values |= dict.fromkeys(names, result)
    return None


def _ends(value: Any) -> Iterator[float]:
    """Yield the least and the largest number of a constant; infinity for one whose numbers are of another kind."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _ends(one)
    elif isinstance(value, dict):
        yield from _ends([*value.keys(), *value.values()])
    elif isinstance(value, torch.Tensor):
        if value.is_complex() or value.dtype is torch.float16:
            yield math.inf
        elif value.dtype is not torch.bool and value.numel() > 0:
            yield from (one.item() for one in torch.aminmax(value.detach()))
    elif isinstance(value, complex):
        yield math.inf
    elif isinstance(value, int | float):
        yield value


def _is_small(number: float) -> bool:
    return abs(number) <= _LARGEST or (isinstance(number, int) and number == TO_THE_END)


def _digits_of(value: Any) -> float:
    largest = max((abs(one) for one in _ends(value) if abs(one) <= _LARGEST), default=0.0)
    return math.log10(largest) if largest > 1 else 0.0


def _keeps_finite(node: torch.Node, held: dict[str, Any]) -> bool:
    if node.kind().startswith("prim::"):
        return node.kind() in _PRIM
    name = name_of(node)
    if not node.kind().startswith("aten::") or name not in _FINITE | _CONDITIONS.keys():
        return False
    known = known_of(node, held)
    condition = _CONDITIONS.get(name)
    return known.get("dtype") != _HALF_CODE and (condition is None or condition(known))


def _most_digits(node: torch.Node, given: list[_Value]) -> float:
    """Return how many digits may come up while it computes."""
    name = name_of(node)
    if name == "einsum":
        return given[1].digits * node.inputsAt(1).node().inputsSize()
    if name in _WEIGHTED:  # a weight may make numbers grow, as in all layers, but is no factor of its own
        return sum(one.digits for one in given if not one.is_held)
    if name in _SCALED or name == "scaled_dot_product_attention":
        return sum(one.digits for one in given)
    if name == "pow":
        return given[0].digits * _POWER_MAX
    if name == "square" or name in _LAYER_NORMS:
        return 2 * given[0].digits
    return 0.0


def _digits(node: torch.Node, given: list[_Value], held: dict[str, Any], most: float) -> float:
    name = name_of(node)
    if name in _BOUNDED | _LAYER_NORMS:
        return max((one.digits for one in given[1:]), default=0.0)
    if name in _WEIGHTED | _SCALED | {"square", "pow"}:
        return most
    if name in _DIVISIONS:
        return given[0].digits + _digits_of_inverse(known_of(node, held)["other"])
    return max((one.digits for one in given), default=0.0)


def _digits_of_inverse(divisor: Any) -> float:
    least = float(divisor.abs().min()) if isinstance(divisor, torch.Tensor) else abs(divisor)
    return max(0.0, -math.log10(least))


def _divides_by_a_constant(known: _Known) -> bool:
    divisor = known.get("other")
    if isinstance(divisor, torch.Tensor):
        return divisor.numel() > 0 and bool((divisor.abs() > 1 / _LARGEST).all())
    return isinstance(divisor, int | float) and abs(divisor) > 1 / _LARGEST


def _has_an_epsilon(known: _Known) -> bool:
    return isinstance(known.get("eps"), float) and known["eps"] >= _EPSILON_MIN


def _has_a_variance(known: _Known) -> bool:
    if not _has_an_epsilon(known):
        return False
    variance = known.get("running_var")
    if variance is None:  # that of the numbers themselves
        return known.get("training", known.get("use_input_stats")) is True
    return isinstance(variance, torch.Tensor) and bool((variance + known["eps"] > 1 / _LARGEST).all())


def _is_a_whole_power(known: _Known) -> bool:
    exponent = known.get("exponent")
    return isinstance(exponent, int | float) and exponent in range(_POWER_MAX + 1)


def _masks_nothing(known: _Known) -> bool:
    return "attn_mask" in known and known["attn_mask"] is None


def _reads_no_bits(known: _Known) -> bool:
    return "dtype" not in known


def _takes_exp_of_small_numbers(known: _Known) -> bool:
    beta, threshold = known.get("beta"), known.get("threshold")
    if not isinstance(beta, int | float) or not isinstance(threshold, int | float):
        return False
    return beta > 1 / _LARGEST and threshold <= _SOFTPLUS_THRESHOLD_MAX


def _takes_exp_of_negative_numbers(known: _Known) -> bool:
    factors = [known.get(name) for name in ("alpha", "input_scale") if name != "input_scale" or name in known]
    return all(isinstance(one, int | float) and one > 1 / _LARGEST for one in factors)


def _has_numbers_under_each_kernel(known: _Known) -> bool:
    """Whether a kernel with gaps lies over no padding alone: the largest of no numbers is -inf."""
    padding, dilation = known.get("padding"), known.get("dilation")
    return isinstance(padding, list) and isinstance(dilation, list) and ({*padding} == {0} or {*dilation} == {1})


_DIVISIONS = ("div", "divide", "true_divide", "floor_divide")
_CONDITIONS: dict[str, Callable[[_Known], bool]] = {
    **dict.fromkeys(_DIVISIONS, _divides_by_a_constant),
    **dict.fromkeys(("layer_norm", "group_norm"), _has_an_epsilon),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _has_numbers_under_each_kernel),
    **dict.fromkeys(("elu", "celu"), _takes_exp_of_negative_numbers),
    **dict.fromkeys(("batch_norm", "instance_norm"), _has_a_variance),
    "pow": _is_a_whole_power,
    "scaled_dot_product_attention": _masks_nothing,
    "softplus": _takes_exp_of_small_numbers,
    "view": _reads_no_bits,
}
