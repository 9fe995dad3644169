"""Returned values: what a method returns, and the part of it that its artifact returns.

A trace returns tensors, and tuples of tensors. So of what a method returns, its artifact has the tensors alone, and the
contract has the rest: dicts, lists, named tuples, dataclasses, and the constants beside the tensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from tracehouse.contract.structure import (
    BakedLeaf,
    ComplexLeaf,
    DataclassNode,
    DictNode,
    ListNode,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    items_of,
)
from tracehouse.torch_values import structure
from tracehouse.torch_values.structure import DataclassFields, NamedTupleFields

# torch's types leave out what is used of this.
_C: Any = torch._C


def open_containers(value: Any) -> Any:
    """Return what a method returned, with each named tuple and dataclass as its fields."""
    match value:
        case Mapping():
            return {key: open_containers(item) for key, item in value.items()}
        case tuple():
            items = tuple(open_containers(item) for item in value)
            names = getattr(type(value), "_fields", None)
            return items if names is None else NamedTupleFields.of(dict(zip(names, items, strict=True)))
        case list():
            return [open_containers(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return DataclassFields({one.name: open_containers(getattr(value, one.name)) for one in fields(value)})
    return value


def tensors(value: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a returned value by their paths, complex ones as pairs of reals."""
    return {name: as_reals(tensor) for name, tensor in structure.tensors(value, "output").items()}


def as_reals(tensor: torch.Tensor) -> torch.Tensor:
    """Return a complex tensor as pairs of reals, in one more dim. Any other tensor is returned as it is."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def fix_sizes(returns: Structure, value: Any) -> Any:
    """Return what a method returned in a trace, with the numbers that it returns elsewhere, as `returns` has them.

    In a trace, sizes and what is computed from them are tensors without dims.
    """
    if isinstance(returns, BakedLeaf):
        return structure.map_tensors(value, "", lambda _, tensor: _as_number(tensor) if tensor.dim() == 0 else tensor)
    items = items_of(returns)
    match value:
        case Mapping() if [structure.key_of(key) for key in value] == [key for key, _ in items]:
            fixed = {key: fix_sizes(item, value[key]) for key, (_, item) in zip(value, items, strict=True)}
            return DataclassFields(fixed) if isinstance(value, DataclassFields) else fixed
        case list() | tuple() if len(value) == len(items):
            parts = [fix_sizes(item, part) for (_, item), part in zip(items, value, strict=True)]
            if isinstance(value, NamedTupleFields):
                return value.with_items(parts)
            return parts if isinstance(value, list) else tuple(parts)
    return value


def _as_number(tensor: torch.Tensor) -> Any:
    """Return the tensor's number, unseen by a tracer and by whoever watches what is read."""
    tracing = _C._get_tracing_state()
    _C._set_tracing_state(None)
    try:
        with _C.DisableTorchFunction(), _disable_current_modes():
            return tensor.item()
    finally:
        _C._set_tracing_state(tracing)


def keep_tensors(value: Any) -> Any:
    """Return the tensors alone, in a tuple for each container that has any. The value must have a tensor."""
    match value:
        case Mapping():
            return tuple(keep_tensors(item) for item in value.values() if structure.has_tensors(item))
        case list() | tuple():
            return tuple(keep_tensors(item) for item in value if structure.has_tensors(item))
    return value


def restore(returns: Structure, value: Any) -> Any:
    """Return what an artifact returned, nested as `returns` says, with its constants.

    The constants are those of `returns`, also if the artifact returns some itself. A value whose tensors do not stand
    as `returns` says is returned as it is.
    """
    try:
        return _restore(returns, value)
    except _OtherNesting:
        return value


class _OtherNesting(Exception):
    """The artifact's tensors do not stand as the contract says."""


def _restore(returns: Structure, value: Any) -> Any:
    match returns:
        case TensorLeaf() | ComplexLeaf():
            if not isinstance(value, torch.Tensor):
                raise _OtherNesting
            return value
        case BakedLeaf():
            return returns.baked
    items = items_of(returns)
    parts = _take_parts(value, [key for key, item in items if structure.is_traced(item)])
    restored = [_restore(item, next(parts) if structure.is_traced(item) else None) for _, item in items]
    match returns:
        case DictNode():
            return dict(zip(returns.mapping, restored, strict=True))
        case DataclassNode():
            return DataclassFields(zip(returns.dataclass, restored, strict=True))
        case NamedTupleNode():
            return NamedTupleFields.of(dict(zip(returns.namedtuple, restored, strict=True)))
        case ListNode():
            return restored
    return tuple(restored)


def _take_parts(value: Any, keys: list[str]) -> Iterator[Any]:
    """Return the parts of a container that have tensors, in the order of `keys`. Raises _OtherNesting."""
    match value:
        case Mapping():
            by_key = {structure.key_of(key): item for key, item in value.items() if structure.has_tensors(item)}
            if sorted(by_key) != sorted(keys):
                raise _OtherNesting
            return iter([by_key[key] for key in keys])
        case list() | tuple():
            parts = [item for item in value if structure.has_tensors(item)]
            if len(parts) == len(keys):
                return iter(parts)
    raise _OtherNesting
