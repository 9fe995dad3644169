"""Rounding: where an archive compares, sorts or rounds numbers that it has computed.

Forms of an archive round otherwise, within the tolerance. Where numbers are only added and multiplied, their answers
then differ as little. But a number on the other side of a threshold, or another class that scores highest, is another
answer, and it comes too seldom for calls to show it.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import torch

from tracehouse.forms.operators import constants_of, is_in_place, name_of


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
    *("floordiv", "isposinf", "isneginf", "_unique", "copysign", "frexp", "isin", "histogram", "nan_to_num"),
    *("_histogramdd_from_bin_cts", "_histogramdd_bin_edges", "slogdet", "linalg_slogdet", "_linalg_slogdet"),
}
# Theirs, too, and what they give has been computed.
_STEPS_THAT_COMPUTE = {
    *("angle", "atan2", "arctan2", "arange", "nextafter"),
    *("svd", "_linalg_svd", "linalg_svd", "qr", "linalg_qr", "_linalg_eigh", "linalg_eigh", "linalg_eig"),
    *("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex", "lu_unpack", "_lu_with_info", "linalg_ldl_factor"),
    *("linalg_matrix_rank", "matrix_rank", "linalg_pinv", "pinverse", "linalg_lstsq"),
}
# What these steps give is a float all the same.
_STEPS_TO_FLOATS = {
    *("copysign", "frexp", "histogram", "nan_to_num", "_histogramdd_from_bin_cts", "_histogramdd_bin_edges"),
    *("slogdet", "linalg_slogdet", "_linalg_slogdet"),
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
    *("adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d"),
}
# Of the order 0, they count what is not 0.
_COUNTING_NORMS = {
    *("norm", "linalg_norm", "linalg_vector_norm", "dist", "cdist", "_cdist_forward", "renorm", "pairwise_distance"),
}
# They give sizes, whatever they are given.
_SIZES = {"size", "dim", "numel", "len", "sym_size", "is_floating_point"}
# They make what is as large, or of the same datatype, of whatever numbers.
_MAKES = {
    *("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones"),
    *("new_full", "new_empty"),
}
# They take numbers from one place to another, or give those that they are told to.
_MOVES = {
    *("view", "reshape", "flatten", "unflatten", "slice", "select", "narrow", "transpose", "t", "permute", "squeeze"),
    *("unsqueeze", "expand", "expand_as", "repeat", "repeat_interleave", "tile", "cat", "stack", "chunk", "split"),
    *("split_with_sizes", "unbind", "flip", "roll", "contiguous", "clone", "detach", "alias", "index", "index_select"),
    *("gather", "take", "embedding", "masked_select", "masked_fill", "where", "copy", "index_put", "scatter", "fill"),
    *("tril", "triu", "diagonal", "movedim", "swapaxes", "broadcast_to", "type_as", "pad", "constant_pad_nd"),
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
    kept = {*kinds}
    held: dict[str, Any] = {own.debugName(): module}
    for node in graph.nodes():
        names = [one.debugName() for one in node.outputs()]
        if node.kind() == "prim::GetAttr":
            held[names[0]] = value = getattr(held[node.input().debugName()], node.s("name"))
            kinds[names[0]] = _kind_of(value)
            kept.add(names[0])
        elif node.kind() == "prim::Constant":
            kinds[names[0]] = _kind_of(node.output().toIValue())
            kept.add(names[0])
        else:
            given = [kinds.get(one.debugName(), _Kind.WHOLE) for one in node.inputs()]
            largest = max(given, default=_Kind.WHOLE)
            if largest is _Kind.COMPUTED and _is_step(node, given):
                return node.kind()
            kind = _kind_of_outputs(node, largest)
            if kind is _Kind.COMPUTED and is_in_place(node):  # other floats may be in the same memory
                changed = (one for one, kind in kinds.items() if kind is _Kind.GIVEN and one not in kept)
                kinds |= dict.fromkeys([*changed], _Kind.COMPUTED)
            kinds |= dict.fromkeys(names, kind)
    return None


def _kind_of(value: Any) -> _Kind:
    if isinstance(value, torch.Tensor):
        return _Kind.GIVEN if value.dtype in _FLOATS else _Kind.WHOLE
    return _Kind.GIVEN if isinstance(value, float | complex) else _Kind.WHOLE


def _is_step(node: torch.Node, given: Sequence[_Kind]) -> bool:
    name = name_of(node)
    if not node.kind().startswith(("aten::", "prim::")):  # nobody knows what it does
        return True
    if name in _MAKES or name in _SIZES:
        return False
    if name in _PLACES:
        return node.outputsSize() > 1 and bool([*node.outputs()][1].uses())
    if name in ("copy", "fill", "type_as") and given[1 if name == "type_as" else 0] is _Kind.WHOLE:
        return True
    if name == "where" and len(given) == 1:
        return True
    if name in _COUNTING_NORMS and _counts(node):
        return True
    if name.startswith("grid_sampler"):
        return constants_of(node).get("interpolation_mode") != _BILINEAR
    return _is_rounding_division(node) or name in _STEPS | _STEPS_THAT_COMPUTE or _becomes_whole(node)


def _kind_of_outputs(node: torch.Node, given: _Kind) -> _Kind:
    name = name_of(node)
    if name in _SIZES or (name in _STEPS and name not in _STEPS_TO_FLOATS) or _becomes_whole(node):
        return _Kind.WHOLE
    if name in _MAKES:
        return _Kind.GIVEN
    if name == "to":
        return max(given, _Kind.GIVEN)
    if name in _MOVES or node.kind().startswith("prim::"):
        return given
    if name in _STEPS or _is_rounding_division(node):
        return _Kind.GIVEN
    return _Kind.WHOLE if given is _Kind.WHOLE and name in _OF_WHOLE_NUMBERS else _Kind.COMPUTED


def _counts(node: torch.Node) -> bool:
    """Whether a norm may be of the order 0: it counts what is not 0."""
    constants = constants_of(node)
    orders = [constants[one] for one in ("ord", "p") if one in constants]
    return not orders or any(isinstance(one, int | float) and one == 0 for one in orders)


def _is_rounding_division(node: torch.Node) -> bool:
    return name_of(node) in ("div", "divide") and constants_of(node).get("rounding_mode") is not None


def _becomes_whole(node: torch.Node) -> bool:
    return constants_of(node).get("dtype") in _WHOLE_CODES
