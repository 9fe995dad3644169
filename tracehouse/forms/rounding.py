"""Rounding: where an archive compares, sorts or rounds numbers that it has computed.

Forms of an archive round otherwise, within the tolerance. Where numbers are only added and multiplied, their answers
then differ as little. But a number on the other side of a threshold, or another class that scores highest, is another
answer, and it comes too seldom for calls to show it.
"""

from enum import IntEnum
from typing import Any

import torch

from tracehouse.forms.operators import constants_of, name_of


class _Kind(IntEnum):
    """What a value holds at most."""

    WHOLE = 0  # integers, booleans, sizes, and what holds no numbers: no form has others
    GIVEN = 1  # floats of an input or a weight: no form has others either
    COMPUTED = 2  # floats that forms may round otherwise


# Answers jump where these are given a number that is a little different.
_STEPS = {
    *("gt", "ge", "lt", "le", "eq", "ne", "isclose", "allclose", "equal", "greater", "greater_equal", "less"),
    *("less_equal", "not_equal", "argmax", "argmin", "argsort", "argwhere", "nonzero", "nonzero_numpy", "mode"),
    *("round", "floor", "ceil", "trunc", "fix", "frac", "sign", "sgn", "heaviside", "signbit", "floor_divide"),
    *("remainder", "fmod", "bucketize", "searchsorted", "histc", "count_nonzero", "is_nonzero", "logical_not"),
    *("logical_and", "logical_or", "logical_xor", "isnan", "isinf", "isfinite", "any", "all", "item", "Int", "Bool"),
    *(
        "IntImplicit",
        "hardshrink",
        "threshold",
        "unique_dim",
        "unique_consecutive",
        "_unique2",
        "quantize_per_tensor",
        "quantize_per_channel",
    ),
    *("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine", "quantize_per_tensor_dynamic"),
}
# What these steps give is a float all the same.
_STEPS_TO_FLOATS = {
    *(
        "round",
        "floor",
        "ceil",
        "trunc",
        "fix",
        "frac",
        "sign",
        "sgn",
        "heaviside",
        "floor_divide",
        "remainder",
        "fmod",
    ),
    *("hardshrink", "threshold", "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"),
}
# Of these, only the second result jumps: where a number stands.
_PLACES = {
    *("max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "cummax", "cummin", "max_pool1d_with_indices"),
    *("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool1d", "adaptive_max_pool2d", "aminmax"),
    *("fractional_max_pool2d",),
}
# They give sizes, whatever they are given.
_SIZES = {"size", "dim", "numel", "len", "sym_size", "is_floating_point"}
# They take numbers from one place to another, or give those that they are told to.
_MOVES = {
    *("view", "reshape", "flatten", "unflatten", "slice", "select", "narrow", "transpose", "t", "permute", "squeeze"),
    *("unsqueeze", "expand", "expand_as", "repeat", "repeat_interleave", "tile", "cat", "stack", "chunk", "split"),
    *("split_with_sizes", "unbind", "flip", "roll", "contiguous", "clone", "detach", "alias", "index", "index_select"),
    *("gather", "take", "embedding", "masked_select", "masked_fill", "where", "copy", "index_put", "scatter", "fill"),
    *("tril", "triu", "diagonal", "movedim", "swapaxes", "broadcast_to", "type_as", "pad", "constant_pad_nd"),
    *("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"),
    *("view_as", "reshape_as", "as_strided", "__getitem__", "ScalarImplicit", "lift_fresh", "lift_fresh_copy"),
}
# Of whole numbers, they make whole numbers.
_OF_WHOLE_NUMBERS = {
    *("add", "sub", "rsub", "mul", "neg", "abs", "sum", "cumsum", "prod", "maximum", "minimum", "clamp", "clamp_min"),
    *("clamp_max", "relu", "square", "arange", "one_hot", "amax", "amin", "bitwise_and", "bitwise_or", "bitwise_not"),
    *("bitwise_xor", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "max", "min", "sort", "topk"),
}
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_WHOLE_CODES = {0, 1, 2, 3, 4, 11}  # of torch's datatypes in a graph: integers and booleans
_BILINEAR = 0


def find_step(module: torch.jit.ScriptModule) -> str | None:
    """Return the first operator of the graph of `forward`, without blocks, in which rounding decides; None if there is
    none."""
    graph = module.inlined_graph
    own, *inputs = graph.inputs()
    kinds = {one.debugName(): _Kind.GIVEN for one in inputs}
    held: dict[str, Any] = {own.debugName(): module}
    for node in graph.nodes():
        names = [one.debugName() for one in node.outputs()]
        if node.kind() == "prim::GetAttr":
            held[names[0]] = value = getattr(held[node.input().debugName()], node.s("name"))
            kinds[names[0]] = _kind_of(value)
        elif node.kind() == "prim::Constant":
            kinds[names[0]] = _kind_of(node.output().toIValue())
        else:
            given = max((kinds.get(one.debugName(), _Kind.WHOLE) for one in node.inputs()), default=_Kind.WHOLE)
            if given is _Kind.COMPUTED and _is_step(node):
                return node.kind()
            kinds |= dict.fromkeys(names, _kind_of_outputs(node, given))
    return None


def _kind_of(value: Any) -> _Kind:
    if isinstance(value, torch.Tensor):
        return _Kind.GIVEN if value.dtype in _FLOATS else _Kind.WHOLE
    return _Kind.GIVEN if isinstance(value, float | complex) else _Kind.WHOLE


def _is_step(node: torch.Node) -> bool:
    name = name_of(node)
    if name in _PLACES:
        return node.outputsSize() > 1 and bool([*node.outputs()][1].uses())
    if name == "to":
        return _becomes_whole(node)
    if name.startswith("grid_sampler"):
        return constants_of(node).get("interpolation_mode") != _BILINEAR
    return name in _STEPS or (name in ("div", "divide") and constants_of(node).get("rounding_mode") is not None)


def _kind_of_outputs(node: torch.Node, given: _Kind) -> _Kind:
    name = name_of(node)
    if name in _SIZES or (name in _STEPS and name not in _STEPS_TO_FLOATS):
        return _Kind.WHOLE
    if name == "to":
        return _Kind.WHOLE if _becomes_whole(node) else max(given, _Kind.GIVEN)
    if name in _MOVES or node.kind().startswith("prim::"):
        return given
    if name in _STEPS:
        return _Kind.GIVEN
    return _Kind.WHOLE if given is _Kind.WHOLE and name in _OF_WHOLE_NUMBERS else _Kind.COMPUTED


def _becomes_whole(node: torch.Node) -> bool:
    return constants_of(node).get("dtype") in _WHOLE_CODES
