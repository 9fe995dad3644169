"""ONNX operators: those of torch that are written otherwise than torch's exporter does it.

As that writes them, ONNX Runtime answers otherwise for some numbers, or nothing can be written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

# torch's types leave out what is used of this.
_onnx: Any = torch.onnx
# ONNX Runtime adds one number after the other. So many are added at a time, and then their sums: of 100,000 numbers
# that are alike, the others would be off by a thousandth. Chosen.
_BLOCK = 512


def register(opset: int) -> None:
    """Have all graphs that are written from now on have these."""
    for name, write in _WRITTEN.items():
        _onnx.register_custom_op_symbolic(f"aten::{name}", write, opset)


def _sigmoid(graph: Any, x: torch.Value) -> Any:
    """Return the operators of a sigmoid that has as many right digits where it is almost 0: ONNX Runtime's has none."""
    return graph.op("Div", _float(graph, 1.0), _one_and_exp(graph, x))


def _silu(graph: Any, x: torch.Value) -> Any:
    return graph.op("Div", x, _one_and_exp(graph, x))


def _one_and_exp(graph: Any, x: torch.Value) -> Any:
    """Return the operators of 1 + exp(-x), which is infinite where torch's sigmoid is 0."""
    return graph.op("Add", _float(graph, 1.0), graph.op("Exp", graph.op("Neg", x)))


def _hardsigmoid(graph: Any, x: torch.Value) -> Any:
    """Return the operators of a hardsigmoid that has as many right digits where it is almost 0."""
    ends = (_float(graph, one) for one in (0.0, 6.0))
    moved = graph.op("Add", x, _float(graph, 3.0))
    return graph.op("Div", graph.op("Clip", moved, *ends), _float(graph, 6.0))


def _hardswish(graph: Any, x: torch.Value) -> Any:
    return graph.op("Mul", x, _hardsigmoid(graph, x))


def _floor_divide(graph: Any, x: torch.Value, divisor: torch.Value) -> Any:
    """Return the operators of a division of sizes that rounds down: torch's own round towards 0."""
    helper = _onnx.symbolic_helper
    if helper._is_fp(x) or helper._is_fp(divisor):
        return helper._unimplemented("floor_divide", "of floats")
    return graph.op("Div", graph.op("Sub", x, graph.op("Mod", x, divisor)), divisor)


def _sum(graph: Any, x: torch.Value, *how: torch.Value) -> Any:
    dims, keeps_dims = _dims_of(x, how)
    return _drop(graph, _add_up(graph, x, dims), [] if keeps_dims else dims)


def _mean(graph: Any, x: torch.Value, *how: torch.Value) -> Any:
    dims, keeps_dims = _dims_of(x, how)
    return _drop(graph, _average(graph, x, dims), [] if keeps_dims else dims)


def _pool_all(dims: Sequence[int]) -> Callable[..., Any]:
    def pool(graph: Any, x: torch.Value, _: torch.Value) -> Any:
        rank = _rank_of(x)
        return _average(graph, x, [rank + one for one in dims])

    return pool


def _dims_of(x: torch.Value, how: Sequence[torch.Value]) -> tuple[list[int], bool]:
    """Return the dims that are summed up, and whether they are kept. The last of `how` is a datatype."""
    helper, rank = _onnx.symbolic_helper, _rank_of(x)
    *said, _ = how
    dims = helper._get_const(said[0], "is", "dim") if said else None
    keeps_dims = bool(said) and bool(helper._get_const(said[1], "i", "keepdim"))
    return sorted(one % rank for one in dims) if dims else [*range(rank)], keeps_dims


def _rank_of(x: torch.Value) -> int:
    rank = _onnx.symbolic_helper._get_tensor_rank(x)
    if rank is None:
        return _onnx.symbolic_helper._unimplemented("a sum", "of a number of dims that is not known")  # type: ignore[no-any-return]
    return int(rank)


def _average(graph: Any, x: torch.Value, dims: Sequence[int]) -> Any:
    if not dims:
        return x
    counts = [_size_of(graph, graph.op("Shape", x), one) for one in dims]
    count = graph.op("ReduceProd", graph.op("Concat", *counts, axis_i=0), keepdims_i=0)
    return graph.op("Div", _add_up(graph, x, dims), graph.op("Cast", count, to_i=_onnx.TensorProtoDataType.FLOAT))


def _add_up(graph: Any, x: torch.Value, dims: Sequence[int]) -> Any:
    """Return the operators of a sum over these dims, which are kept."""
    rank, sizes = _rank_of(x), [_onnx.symbolic_helper._get_tensor_dim_size(x, one) for one in dims]
    summed: Any = x
    for dim, size in zip(dims, sizes, strict=True):
        is_short = size is not None and size <= _BLOCK
        summed = _add(graph, summed if is_short else _add_blocks(graph, summed, dim, rank), dim)
    return summed


def _add_blocks(graph: Any, x: torch.Value, dim: int, rank: int) -> Any:
    """Return the operators that add up the numbers of each block along the dim."""
    shape = graph.op("Shape", x)
    size = _size_of(graph, shape, dim)
    block = graph.op("Max", graph.op("Min", size, _integers(graph, _BLOCK)), _integers(graph, 1))
    rest = graph.op("Mod", graph.op("Neg", size), block)
    before, after = [0] * (rank + dim), [0] * (rank - dim - 1)
    ends = [_integers(graph, *before), rest, *([_integers(graph, *after)] if after else [])]
    filled = graph.op("Pad", x, graph.op("Concat", *ends, axis_i=0))
    blocks = graph.op("Div", graph.op("Add", size, rest), block)
    others = [_cut(graph, shape, 0, dim), blocks, block, _cut(graph, shape, dim + 1, rank)]
    split = graph.op("Reshape", filled, graph.op("Concat", *others, axis_i=0))
    return _drop(graph, _add(graph, split, dim + 1), [dim + 1])


def _add(graph: Any, x: torch.Value, dim: int) -> Any:
    return graph.op("ReduceSum", x, _integers(graph, dim), keepdims_i=1)


def _drop(graph: Any, x: torch.Value, dims: Sequence[int]) -> Any:
    return graph.op("Squeeze", x, _integers(graph, *dims)) if dims else x


def _size_of(graph: Any, shape: torch.Value, dim: int) -> Any:
    return _cut(graph, shape, dim, dim + 1)


def _cut(graph: Any, shape: torch.Value, begin: int, end: int) -> Any:
    return graph.op("Slice", shape, _integers(graph, begin), _integers(graph, end))


def _float(graph: Any, number: float) -> Any:
    return graph.op("Constant", value_t=torch.tensor(number))


def _integers(graph: Any, *numbers: int) -> Any:
    return graph.op("Constant", value_t=torch.tensor(numbers, dtype=torch.int64))


def _group_norm(
    graph: Any, x: torch.Value, groups: torch.Value, weight: torch.Value, bias: torch.Value, eps: torch.Value, _: Any
) -> Any:
    """Return the operators of layer norms of the groups: with torch's own, numbers that are all alike give others."""
    helper, rank = _onnx.symbolic_helper, _rank_of(x)
    split = graph.op("Reshape", x, _integers(graph, 0, helper._get_const(groups, "i", "num_groups"), -1))
    one = graph.op("Constant", value_t=torch.ones(1))
    ones = graph.op("Expand", one, _size_of(graph, graph.op("Shape", split), 2))
    epsilon = helper._get_const(eps, "f", "eps")
    normed = graph.op("LayerNormalization", split, ones, epsilon_f=epsilon, axis_i=-1)
    normed = graph.op("Reshape", normed, graph.op("Shape", x))
    for name, held in (("Mul", weight), ("Add", bias)):
        if not held.node().mustBeNone():
            normed = graph.op(name, normed, graph.op("Reshape", held, _integers(graph, -1, *[1] * (rank - 2))))
    return normed


def _unflatten(graph: Any, x: torch.Value, dim: torch.Value, sizes: torch.Value) -> Any:
    """Return the operators that split a dim, with the number of dims that come of it: torch's own lose it."""
    helper = _onnx.symbolic_helper
    count, place = helper._get_tensor_rank(x), helper._get_const(dim, "i", "dim")
    place %= count
    parts = helper._get_const(sizes, "is", "sizes") if helper._is_constant(sizes) else helper._unpack_list(sizes)
    shape = graph.op("Shape", x)
    made = [_integers(graph, one) if isinstance(one, int) else helper._reshape_helper(graph, one, [1]) for one in parts]
    whole = graph.op("Concat", _cut(graph, shape, 0, place), *made, _cut(graph, shape, place + 1, count), axis_i=0)
    split = graph.op("Reshape", x, whole)
    return split.setType(x.type().with_sizes([None] * (count + len(made) - 1)))


_WRITTEN: dict[str, Callable[..., Any]] = {
    "sigmoid": _sigmoid,
    "silu": _silu,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "floor_divide": _floor_divide,
    "sum": _sum,
    "mean": _mean,
    "adaptive_avg_pool1d": _pool_all([-1]),
    "adaptive_avg_pool2d": _pool_all([-2, -1]),
    "group_norm": _group_norm,
    "unflatten": _unflatten,
}
