"""Finite numbers: whether an archive makes only finite numbers of finite ones that are not huge.

Some forms answer otherwise where a NaN comes up on the way. oneDNN's fused rectifier makes 0 of it, so that the answer
looks right. An archive that makes no NaN by itself has such a form for usual values.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from tracehouse.forms.operators import constants_of, name_of

# A larger number in a graph or among its weights stands for infinity, such as the lowest float in a mask. Chosen.
_LARGEST = 1e10
_HALF_CODE = 5  # of torch's datatypes in a graph: FP16, of which 65504 is the largest

# What they give is finite if what they are given is, and of the same order, or grows with it as weights make it grow.
_FINITE = {
    *("linear", "addmm", "matmul", "mm", "bmm", "baddbmm", "addbmm", "mv", "dot", "einsum", "outer", "bilinear"),
    *("_convolution", "convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
    *("conv_transpose3d", "embedding", "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell"),
    *("add", "sub", "rsub", "mul", "neg", "abs", "square", "sum", "mean", "cumsum", "maximum", "minimum", "amax"),
    *("amin", "max", "min", "sort", "topk", "clamp", "clamp_min", "clamp_max", "addcmul", "lerp", "sin", "cos", "erf"),
    *("relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "hardswish"),
    *("hardsigmoid", "sigmoid", "tanh", "softplus", "softsign", "log_sigmoid", "prelu", "glu", "threshold"),
    *("hardshrink", "softshrink", "tanhshrink", "softmax", "log_softmax", "dropout", "feature_dropout"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d"),
    *("adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d"),
    *("upsample_bicubic2d", "upsample_trilinear3d", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle"),
    *("view", "reshape", "flatten", "unflatten", "slice", "select", "narrow", "transpose", "t", "permute", "squeeze"),
    *("unsqueeze", "expand", "expand_as", "repeat", "repeat_interleave", "tile", "cat", "stack", "chunk", "split"),
    *("split_with_sizes", "unbind", "flip", "roll", "contiguous", "clone", "detach", "alias", "index", "index_select"),
    *("gather", "masked_select", "masked_fill", "where", "copy", "fill", "tril", "triu", "diagonal", "movedim"),
    *(
        "mT",
        "numpy_T",
        "swapaxes",
        "broadcast_to",
        "type_as",
        "pad",
        "constant_pad_nd",
        "reflection_pad1d",
        "reflection_pad2d",
    ),
    *("replication_pad1d", "replication_pad2d", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like"),
    *("new_zeros", "new_ones", "new_full", "arange", "one_hot", "view_as", "reshape_as", "__getitem__"),
    *("lift_fresh", "lift_fresh_copy", "size", "dim", "numel", "len", "ScalarImplicit", "Int", "IntImplicit"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or"),
    *("bitwise_not", "__and__", "__or__"),
}


def find_nan_source(module: torch.jit.ScriptModule) -> str | None:
    """Return what in the graph of `forward`, without blocks, may make a NaN of finite numbers; None if nothing does.

    Sums that grow beyond the largest float are not looked for.
    """
    graph = module.inlined_graph
    held: dict[str, Any] = {next(graph.inputs()).debugName(): module}
    for node in graph.nodes():
        if node.kind() in ("prim::GetAttr", "prim::Constant"):
            value = _held_by(node, held)
            held[node.output().debugName()] = value
            if not _is_small(value):
                return "a number that is not finite, or stands for infinity"
        elif not node.kind().startswith("prim::") and not _keeps_finite(node):
            return node.kind()
    return None


def _held_by(node: torch.Node, held: dict[str, Any]) -> Any:
    if node.kind() == "prim::Constant":
        return node.output().toIValue()
    return getattr(held[node.input().debugName()], node.s("name"))


def _is_small(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_small(one) for one in value)
    if isinstance(value, torch.Tensor):
        is_number = value.is_floating_point() and value.numel() > 0
        return not is_number or float(value.detach().abs().max()) <= _LARGEST
    return not isinstance(value, float) or abs(value) <= _LARGEST


def _keeps_finite(node: torch.Node) -> bool:
    name = name_of(node)
    if not node.kind().startswith("aten::"):
        return False
    if (condition := _CONDITIONS.get(name)) is not None:
        return condition(constants_of(node))
    return name in _FINITE


def _divides_by_a_constant(given: dict[str, Any]) -> bool:
    divisor = given.get("other")
    if isinstance(divisor, torch.Tensor):
        return divisor.numel() > 0 and bool((divisor.abs() > 1 / _LARGEST).all())
    return isinstance(divisor, int | float) and abs(divisor) > 1 / _LARGEST


def _has_an_epsilon(given: dict[str, Any]) -> bool:
    return isinstance(given.get("eps"), float) and given["eps"] > 0


def _is_a_whole_power(given: dict[str, Any]) -> bool:
    exponent = given.get("exponent")
    return isinstance(exponent, int | float) and math.isfinite(exponent) and 0 <= exponent == int(exponent) <= 3


def _masks_nothing(given: dict[str, Any]) -> bool:
    return "attn_mask" in given and given["attn_mask"] is None


def _keeps_the_range(given: dict[str, Any]) -> bool:
    return given.get("dtype") != _HALF_CODE


_CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    **dict.fromkeys(("div", "divide", "true_divide", "floor_divide"), _divides_by_a_constant),
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm", "instance_norm"), _has_an_epsilon),
    "pow": _is_a_whole_power,
    "scaled_dot_product_attention": _masks_nothing,
    "to": _keeps_the_range,
}
