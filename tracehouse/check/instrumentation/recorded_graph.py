"""The recorded graph: what tensors follow from, in the graph that the tracer is recording."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

# Kinds of nodes: those that give sizes, and those whose sizes follow from values.
_SIZE_NODES = frozenset({"aten::size", "aten::len", "aten::numel", "aten::dim", "aten::stride", "aten::sym_size"})
_NODES_SIZED_BY_VALUES = frozenset({
    "aten::nonzero", "aten::nonzero_numpy", "aten::masked_select", "aten::index", "aten::unique_dim",
    "aten::_unique2", "aten::_unique", "aten::unique_consecutive", "aten::repeat_interleave", "aten::bincount",
    "aten::argwhere", "aten::unique_dim_consecutive",
})  # fmt: skip
# With these the tracer records what Python computes from sizes.
_ARITHMETIC_NODES = frozenset({
    "prim::Constant", "prim::NumToTensor", "prim::ListConstruct", "prim::TupleConstruct", "aten::Int",
    "aten::ScalarImplicit", "aten::IntImplicit", "aten::Float", "aten::add", "aten::sub", "aten::rsub", "aten::mul",
    "aten::div", "aten::floor_divide", "aten::floor", "aten::ceil", "aten::round", "aten::neg", "aten::abs",
    "aten::remainder", "aten::fmod", "aten::pow", "aten::sqrt", "aten::eq", "aten::ne", "aten::lt", "aten::le",
    "aten::gt", "aten::ge", "aten::logical_and", "aten::logical_or", "aten::logical_not", "aten::detach", "aten::to",
})  # fmt: skip
_INDEX_DATATYPES = {torch.int8, torch.int16, torch.int32, torch.int64}  # others are masks
_UPSTREAM_MAX = 20_000  # the search upstream ends after so many values of the graph


@contextmanager
def forget_stale_index() -> Iterator[None]:
    """Surround a trace that may raise, so that it does not crash the traces after it.

    The tracer sets the value of an index aside for the operator that is going to use it. If that operator raises, the
    next operator of any trace uses the value, out of a graph that has been freed, and the process ends. So the graph is
    kept alive until the value was used.
    """
    graphs: list[Any] = []
    hook = register_module_forward_pre_hook(lambda *_: graphs.append(torch._C._get_tracing_state()))
    try:
        yield
    except BaseException:
        _use_index()
        raise
    finally:
        hook.remove()


def find_value(tensor: torch.Tensor) -> Any:
    """Return the value of the graph that a tensor is; None if no graph is recorded, or the tensor is not in it."""
    if torch._C._get_tracing_state() is None:
        return None
    with suppress(Exception):  # the tensor was not recorded
        return torch._C._get_value_trace(tensor)  # type: ignore[attr-defined]
    return None


def follows_a_data_dependent_size(tensor: torch.Tensor) -> bool:
    """Whether a tensor is computed from one whose size depends on values."""
    value = find_value(tensor)
    return value is not None and any(_is_sized_by_values(node) for node in _nodes_upstream(value))


def follows_sizes_alone(value: Any) -> bool:
    """Whether a value of the graph is computed from sizes and constants alone, and no such size depends on values."""
    nodes = [*_nodes_upstream(value, _SIZE_NODES)]
    if any(node.kind() not in _ARITHMETIC_NODES | _SIZE_NODES for node in nodes):
        return False
    return not any(_is_sized_by_values(node) for node in _nodes_upstream(value))


def follows_sizes(value: Any) -> bool:
    """Whether a value of the graph is computed from a size, among others."""
    return any(node.kind() in _SIZE_NODES for node in _nodes_upstream(value))


def _use_index() -> None:
    with suppress(Exception):  # the trace uses the stale value, and raises because of it
        torch.jit.trace(
            lambda x, place: x[place], (torch.zeros(1), torch.zeros((), dtype=torch.int64)), check_trace=False
        )


def _nodes_upstream(value: Any, border: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yield the nodes of the graph that compute a value, directly or further upstream.

    What lies upstream of a node of the kinds in `border` is left out.
    """
    seen: set[int] = set()
    waiting: list[Any] = [value]
    while waiting and len(seen) < _UPSTREAM_MAX:
        one = waiting.pop()
        if one.unique() not in seen:
            seen.add(one.unique())
            yield one.node()
            if one.node().kind() not in border:
                waiting += one.node().inputs()


def _is_sized_by_values(node: Any) -> bool:
    """Whether the values of its inputs decide how large a node's output is. An index of integers has their own size."""
    if node.kind() != "aten::index":
        return node.kind() in _NODES_SIZED_BY_VALUES
    indices = [*[*node.inputs()][1].node().inputs()]
    return any(_index_datatype(one) not in _INDEX_DATATYPES for one in indices)


def _index_datatype(index: Any) -> torch.dtype | None:
    """Return the datatype of an index as the tracer recorded it; None if it is not known."""
    if index.type().kind() == "NoneType":
        return torch.int64  # no index at all: the whole dim
    return index.type().dtype() if index.type().kind() == "TensorType" else None
