"""How arguments and outputs nest: Python containers of tensors, and the contract's words for them.

A traced method takes tensors, in containers that nest as the contract says. Everything else (numbers, strings, None,
containers without a tensor in them) was baked in when it was traced, and is not passed to it. A scripted method takes
everything.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.contract.structure import (
    BakedLeaf,
    ComplexLeaf,
    DataclassNode,
    DictNode,
    FixedLeaf,
    ListNode,
    NamedTupleNode,
    Structure,
    TensorLeaf,
    TupleNode,
)
from tracehouse.introspection.addresses import without_addresses

# What the contract writes down of a default, which may be of any length in the submitted source. Chosen.
_DEFAULT_MAX_LEAVES = 64
_DEFAULT_MAX_CHARACTERS = 200


@dataclass(frozen=True)
class LeftOut:
    """Stands for an argument that a call leaves out: Python then uses this default."""

    default: Any


class DataclassFields(dict[str, Any]):
    """Stands for a dataclass that a method returned: its fields by name."""


class NamedTupleFields(tuple[Any, ...]):
    """Stands for a named tuple that a method returned: its items, and the names of its fields."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "NamedTupleFields":
        """Return the named tuple with these fields."""
        made = cls(fields.values())
        made.names = tuple(fields)
        return made

    def with_items(self, items: Iterable[Any]) -> "NamedTupleFields":
        """Return a named tuple with the same fields and other items."""
        return NamedTupleFields.of(dict(zip(self.names, items, strict=True)))


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its path, left to right: `x`, `pair.0`, `batch.ids`."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield from leaves(item, f"{name}.{key_of(key)}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from leaves(item, f"{name}.{index}")
        case _:
            yield name, value


def names(value: Any, name: str) -> Iterator[str]:
    """Yield every path: of leaves and of containers, also empty ones, a container before its items."""
    yield name
    match value:
        case Mapping():
            for key, item in value.items():
                yield from names(item, f"{name}.{key_of(key)}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from names(item, f"{name}.{index}")


def tensors(value: Any, name: str) -> dict[str, torch.Tensor]:
    """Return the tensors among the leaves, by their paths."""
    return {path: leaf for path, leaf in leaves(value, name) if isinstance(leaf, torch.Tensor)}


def map_tensors(value: Any, name: str, change: Callable[[str, torch.Tensor], Any]) -> Any:
    """Return the value with each tensor replaced by `change(path, tensor)`."""
    match value:
        case Mapping():
            mapped = {key: map_tensors(item, f"{name}.{key_of(key)}", change) for key, item in value.items()}
            return DataclassFields(mapped) if isinstance(value, DataclassFields) else mapped
        case tuple():
            items = tuple(map_tensors(item, f"{name}.{index}", change) for index, item in enumerate(value))
            return value.with_items(items) if isinstance(value, NamedTupleFields) else items
        case list():
            return [map_tensors(item, f"{name}.{index}", change) for index, item in enumerate(value)]
        case torch.Tensor():
            return change(name, value)
    return value


def reorder_keys(value: Any, name: str, path: str, keys: Sequence[str]) -> Any:
    """Return the value with the keys of the dict at `path` in the order of `keys`; `name` is the value's own path."""
    match value:
        case Mapping():
            items = list(value.items())
            if name == path:
                items.sort(key=lambda item: keys.index(key_of(item[0])))
            return {key: reorder_keys(item, f"{name}.{key_of(key)}", path, keys) for key, item in items}
        case tuple():
            return tuple(reorder_keys(item, f"{name}.{index}", path, keys) for index, item in enumerate(value))
        case list():
            return [reorder_keys(item, f"{name}.{index}", path, keys) for index, item in enumerate(value)]
    return value


def describe(value: Any, name: str, *, scripted: bool = False) -> Structure:
    """Return what the contract says about a value with the path `name`."""
    if isinstance(value, LeftOut):
        return _describe_default(value, name, scripted=scripted)
    if not scripted and not has_tensors(value):
        return BakedLeaf(baked=describe_constant(value))
    match value:
        case Mapping():
            named = {key_of(key): item for key, item in value.items()}
            inner = {key: describe(item, f"{name}.{key}", scripted=scripted) for key, item in named.items()}
            return DataclassNode(dataclass=inner) if isinstance(value, DataclassFields) else DictNode(mapping=inner)
        case NamedTupleFields():
            described = _describe_items(value, name, scripted=scripted)
            return NamedTupleNode(namedtuple=dict(zip(value.names, described, strict=True)))
        case tuple():
            return TupleNode(tuple=_describe_items(value, name, scripted=scripted))
        case list():
            return ListNode(list=_describe_items(value, name, scripted=scripted))
        case torch.Tensor():
            return ComplexLeaf(complex=name) if value.is_complex() else TensorLeaf(tensor=name)
    return FixedLeaf(fixed=describe_constant(value))


def describe_constant(value: Any) -> Any:
    """Return what the contract says about a value without tensors: the value itself if JSON has it, else its repr."""
    match value:
        case Mapping():
            return {key_of(key): describe_constant(item) for key, item in value.items()}
        case list() | tuple():
            return [describe_constant(item) for item in value]
        case float():  # numpy.float64 is one too
            return float(value) if math.isfinite(value) else repr(float(value))
        case None | bool() | int() | str():
            return value
    return without_addresses(repr(value))


def key_of(key: Any) -> str:
    """Return a dict's key as text for names, the same in every process."""
    return key if type(key) is str else without_addresses(str(key))


def assemble(structure: Structure, by_name: Mapping[str, torch.Tensor]) -> Any:
    """Return the value that an artifact's method takes, with the tensors at their places.

    Raises KeyError if a tensor is missing, and TypeError for a baked structure.
    """
    match structure:
        case TensorLeaf():
            return by_name[structure.tensor]
        case ListNode():
            return [assemble(item, by_name) for item in structure.list if is_traced(item)]
        case TupleNode():
            return tuple(assemble(item, by_name) for item in structure.tuple if is_traced(item))
        case DictNode():
            return {key: assemble(item, by_name) for key, item in structure.mapping.items() if is_traced(item)}
        case FixedLeaf():
            return structure.fixed
    raise TypeError(f"{type(structure).__name__} is no part of an argument that is passed to the artifact")


def is_traced(structure: Structure) -> bool:
    """Whether a value of this structure is passed to the artifact, not baked in."""
    return not isinstance(structure, BakedLeaf)


def has_tensors(value: Any) -> bool:
    """Whether any leaf is a tensor."""
    return any(isinstance(leaf, torch.Tensor) for _, leaf in leaves(value, ""))


def has_only_tensors(value: Any) -> bool:
    """Whether every leaf is a tensor and no container is empty."""
    match value:
        case Mapping():
            return bool(value) and all(has_only_tensors(item) for item in value.values())
        case list() | tuple():
            return bool(value) and all(has_only_tensors(item) for item in value)
    return isinstance(value, torch.Tensor)


def is_passed_to_artifact(value: Any, *, scripted: bool) -> bool:
    """Whether a value is passed to the artifact. `is_traced` answers the same question for a structure."""
    if isinstance(value, LeftOut):
        return scripted and _is_short(value.default)
    return scripted or has_tensors(value)


def strip_baked(value: Any, *, scripted: bool = False) -> Any:
    """Return the value without the parts that are baked in. `is_passed_to_artifact` must be true for it."""
    if scripted:
        return value.default if isinstance(value, LeftOut) else value
    match value:
        case Mapping():
            return {key: strip_baked(item) for key, item in value.items() if has_tensors(item)}
        case tuple():
            return tuple(strip_baked(item) for item in value if has_tensors(item))
        case list():
            return [strip_baked(item) for item in value if has_tensors(item)]
    return value


def fill_in(example: Any, given: Any) -> Any:
    """Undo `strip_baked`: return `given`, completed by the parts that are baked in, as they are in the example."""
    if not has_tensors(example):
        return example
    match example:
        case Mapping():
            return {key: fill_in(item, given[key]) if has_tensors(item) else item for key, item in example.items()}
        case list() | tuple():
            remaining = iter(given)
            items = [fill_in(item, next(remaining)) if has_tensors(item) else item for item in example]
            return tuple(items) if isinstance(example, tuple) else items
    return given


def _describe_items(values: list[Any] | tuple[Any, ...], name: str, *, scripted: bool) -> list[Structure]:
    return [describe(item, f"{name}.{index}", scripted=scripted) for index, item in enumerate(values)]


def _describe_default(left_out: LeftOut, name: str, *, scripted: bool) -> Structure:
    """Return what the contract says about a default.

    A scripted method takes a short, plain default like any other value. Other defaults stay in its schema.
    """
    if not _is_short(left_out.default):
        return BakedLeaf(baked=_describe_object(left_out.default))
    return describe(left_out.default, name, scripted=scripted)


def _is_short(value: Any) -> bool:
    """Whether a value is plain JSON and short. Types must be exact: JSON has no IntEnum."""
    found = list(leaves(value, ""))
    return len(found) <= _DEFAULT_MAX_LEAVES and _nests_plainly(value) and all(_is_plain(leaf) for _, leaf in found)


def _nests_plainly(value: Any) -> bool:
    if isinstance(value, Mapping):
        return type(value) is dict and all(type(key) is str and _nests_plainly(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(_nests_plainly, value))
    return True


def _is_plain(leaf: Any) -> bool:
    if type(leaf) is int:
        return -(2**63) <= leaf < 2**63
    if type(leaf) is float:
        return math.isfinite(leaf)
    if type(leaf) is str:
        return len(leaf) <= _DEFAULT_MAX_CHARACTERS and (leaf.isascii() or leaf.isprintable())
    return leaf is None or type(leaf) is bool


def _describe_object(value: Any) -> str:
    """Return a short text that is the same in every process, unlike a repr with an address."""
    match value:
        case torch.Tensor():
            return f"<{value.dtype} of shape {list(value.shape)}>"
        case float() | torch.dtype() | torch.device():
            return str(value)
        case Mapping() | list() | tuple():
            return f"<{type(value).__name__} of {len(value)}>"
    return f"<{type(value).__name__}>"
