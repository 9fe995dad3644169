"""Ported operators: those that another runtime is known to compute as torch does, whatever numbers they are given.

The first call of each shape is answered by both, so what follows from shapes alone need not be known here: which
numbers are taken where, and with which weights they are summed up. But an operator that is right for one number and
wrong for another would pass. So a graph has another runtime's form only if all its operators stand here. Left out is
what was found to differ, or was not tried: whatever compares, takes an index, has integers, or makes its own numbers.
ONNX Runtime's `elu`, for instance, makes 0 of numbers that are almost 0.
"""

from collections.abc import Callable
from typing import Any

import torch

from tracehouse.forms.operators import held_values, is_in_place, known_of, name_of

# Operators on sizes and constants alone: what they give is the same in each call of a shape, so that the comparison of
# its first call covers them.
_ON_SIZES = {
    *("aten::size", "prim::NumToTensor", "aten::Int", "aten::IntImplicit", "aten::ScalarImplicit", "aten::add"),
    *("aten::sub", "aten::rsub", "aten::mul", "aten::floor_divide", "aten::div", "aten::neg"),
}
# They put numbers in another place.
_MOVES = {
    *("view", "reshape", "flatten", "unflatten", "slice", "select", "narrow", "transpose", "t", "permute", "squeeze"),
    *("unsqueeze", "expand", "expand_as", "chunk", "split", "split_with_sizes", "unbind", "contiguous", "detach"),
    *("cat", "stack", "clone", "repeat", "flip", "pad", "constant_pad_nd", "pixel_shuffle"),
}
# They multiply numbers with weights or with each other, and sum up the products.
_SUMS = {"linear", "addmm", "matmul", "mm", "bmm", "_convolution", "mul", "neg", "square"}
# A larger number takes the place of smaller ones, or numbers are bent in a way that was compared over all floats.
_CURVES = {
    *("relu", "relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "leaky_relu", "abs", "tanh", "gelu", "sigmoid"),
    *("silu", "hardswish", "hardsigmoid"),
}
_NORMS = {"layer_norm", "group_norm"}
_KINDS = {"prim::Constant", "prim::GetAttr", "prim::ListConstruct", "prim::ListUnpack", "prim::TupleConstruct"}

# Runtimes compute a batch norm as `x * scale + shift`. Where its mean is so many deviations from 0, the two are so many
# times as large as what they leave, and as many digits are lost, of seven. Chosen: means of trained models are closer.
_MEAN_MAX = 100.0

_Known = dict[str, Any]


def find_unported(module: torch.jit.ScriptModule) -> str | None:
    """Return what in the graph of `forward`, without blocks, other runtimes are not known to compute as torch does;
    None if there is nothing."""
    graph, held = module.inlined_graph, held_values(module)
    if any(not _is_plain(value) for value in held.values()):
        return "a constant or weight that is no FP32"
    fixed = {name for name, value in held.items() if not isinstance(value, torch.nn.Module)}
    for node in graph.nodes():
        given = [one.debugName() for one in node.inputs()]
        names = [one.debugName() for one in node.outputs()]
        if node.kind() == "aten::size" or (node.kind() in _ON_SIZES | _KINDS and fixed.issuperset(given)):
            fixed.update(names)
        elif node.kind() not in _KINDS and not _is_ported(node, known_of(node, held)):
            return node.kind()
    if any(one.debugName() in fixed for one in graph.outputs()):
        return "an output that has no numbers of an input"
    if any("List[" in one.type().annotation_str for one in graph.outputs()):
        return "an output that is a list"
    return None


def _is_plain(value: Any) -> bool:
    """Whether a constant or weight is FP32, or a number, which a trace has as a tensor without dims."""
    if isinstance(value, list | tuple):
        return all(_is_plain(one) for one in value)
    if isinstance(value, torch.Tensor):
        return value.dtype is torch.float32 or (value.dtype in (torch.int64, torch.float64) and value.dim() == 0)
    return not isinstance(value, dict | complex)


def _is_ported(node: torch.Node, known: _Known) -> bool:
    name = name_of(node)
    if not node.kind().startswith("aten::") or (is_in_place(node) and not _owns_memory(node.inputsAt(0))):
        return False
    condition = _CONDITIONS.get(name)
    return condition(known) if condition is not None else name in _MOVES | _SUMS | _CURVES | _NORMS


def _owns_memory(value: torch.Value) -> bool:
    """Whether nothing but the one operator that it is given to sees the memory of a computed value."""
    node = value.node()
    makes = name_of(node) in _SUMS | _CURVES | _NORMS | {"add", "sub", "div", "batch_norm"}
    return node.kind().startswith("aten::") and makes and len(value.uses()) == 1


def _is_once(known: _Known) -> bool:
    return bool(known.get("alpha", 1) == 1)


def _divides_exactly(known: _Known) -> bool:
    return known.get("rounding_mode") is None


def _keeps_datatype(known: _Known) -> bool:
    return "dtype" in known and known["dtype"] is None


def _is_in_eval_mode(known: _Known) -> bool:
    return known.get("training", known.get("train")) is False


def _norms_around_0(known: _Known) -> bool:
    mean, variance = known.get("running_mean"), known.get("running_var")
    if not _is_in_eval_mode(known) or mean is None or variance is None:
        return False
    return bool((mean.abs() <= _MEAN_MAX * (variance + known["eps"]).sqrt()).all())


def _covers_inputs(known: _Known) -> bool:
    """Whether a pooling's last kernels lie within its input: runtimes differ in what they count there."""
    return known.get("ceil_mode") is False and known.get("divisor_override") is None


def _pools_all(known: _Known) -> bool:
    sizes = known.get("output_size")
    return isinstance(sizes, list) and {*sizes} == {1}


def _is_whole_power(known: _Known) -> bool:
    exponent = known.get("exponent")
    return isinstance(exponent, int | float) and exponent in (1, 2, 3)


def _masks_nothing(known: _Known) -> bool:
    return (
        known.get("attn_mask", 0) is None
        and known.get("is_causal") is False
        and known.get("enable_gqa", False) is False
        and bool(known.get("dropout_p") == 0)
    )


# Operators that are ported if this is true of what is known of their arguments.
_CONDITIONS: dict[str, Callable[[_Known], bool]] = {
    **dict.fromkeys(("add", "sub", "rsub"), _is_once),
    **dict.fromkeys(("softmax", "log_softmax", "mean", "sum"), _keeps_datatype),
    **dict.fromkeys(("dropout", "feature_dropout"), _is_in_eval_mode),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"), _covers_inputs),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _pools_all),
    "batch_norm": _norms_around_0,
    "div": _divides_exactly,
    "pow": _is_whole_power,
    "scaled_dot_product_attention": _masks_nothing,
}
