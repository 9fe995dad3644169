"""How arguments and outputs nest: Python containers of tensors, and the contract's words for them.

A traced method takes tensors, in containers nested as the contract says. Everything else (numbers, strings, None,
containers without a tensor in them) was baked in when it was traced, and is left out of what is handed over. A scripted
method takes everything.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.contract.structure import BakedLeaf, DictNode, FixedLeaf, ListNode, Structure, TensorLeaf, TupleNode
from tracehouse.introspection.addresses import without_addresses

# A default is written by the source's author, who need not keep it short.
_DEFAULT_MAX_LEAVES = 64
_DEFAULT_MAX_CHARACTERS = 200


@dataclass(frozen=True)
class LeftOut:
    """In the place of an argument that a call leaves out: the default that Python then takes for it."""

    default: Any


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf under its path, left to right: `x`, `pair.0`, `batch.ids`."""
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
    """Every path there is: of what is empty too, and of what holds others before those."""
    yield name
    match value:
        case Mapping():
            for key, item in value.items():
                yield from names(item, f"{name}.{key_of(key)}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from names(item, f"{name}.{index}")


def tensors(value: Any, name: str) -> dict[str, torch.Tensor]:
    """The tensors among the leaves."""
    return {path: leaf for path, leaf in leaves(value, name) if isinstance(leaf, torch.Tensor)}


def map_tensors(value: Any, name: str, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Any:
    """The value with other tensors; `change` is told of each one's path as well."""
    match value:
        case Mapping():
            return {key: map_tensors(item, f"{name}.{key_of(key)}", change) for key, item in value.items()}
        case tuple():
            return tuple(map_tensors(item, f"{name}.{index}", change) for index, item in enumerate(value))
        case list():
            return [map_tensors(item, f"{name}.{index}", change) for index, item in enumerate(value)]
        case torch.Tensor():
            return change(name, value)
    return value


def describe(value: Any, name: str, *, scripted: bool = False) -> Structure:
    """What the contract says of a value that stands under that path."""
    if isinstance(value, LeftOut):
        return _describe_default(value, name, scripted=scripted)
    if not scripted and not has_tensors(value):
        return BakedLeaf(baked=describe_constant(value))
    match value:
        case Mapping():
            named = {key_of(key): item for key, item in value.items()}
            inner = {key: describe(item, f"{name}.{key}", scripted=scripted) for key, item in named.items()}
            return DictNode(mapping=inner)
        case tuple():
            return TupleNode(tuple=_describe_items(value, name, scripted=scripted))
        case list():
            return ListNode(list=_describe_items(value, name, scripted=scripted))
        case torch.Tensor():
            return TensorLeaf(tensor=name)
    return FixedLeaf(fixed=describe_constant(value))


def describe_constant(value: Any) -> Any:
    """What the contract says of a value without tensors: as JSON has it, else as Python prints it."""
    match value:
        case Mapping():
            return {key_of(key): describe_constant(item) for key, item in value.items()}
        case list() | tuple():
            return [describe_constant(item) for item in value]
        case float():  # numpy's too
            return float(value) if math.isfinite(value) else repr(float(value))
        case None | bool() | int() | str():
            return value
    return without_addresses(repr(value))


def key_of(key: Any) -> str:
    """A dict's key as it stands in names, the same in each process."""
    return key if type(key) is str else without_addresses(str(key))


def assemble(structure: Structure, by_name: Mapping[str, torch.Tensor]) -> Any:
    """The value that an archive's method takes, made of tensors by their names."""
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
        case BakedLeaf():
            raise TypeError("a baked value is not handed over")


def is_traced(structure: Structure) -> bool:
    """Whether a value of this structure is handed over."""
    return not isinstance(structure, BakedLeaf)


def has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for _, leaf in leaves(value, ""))


def has_only_tensors(value: Any) -> bool:
    """Whether it is handed over whole."""
    match value:
        case Mapping():
            return bool(value) and all(has_only_tensors(item) for item in value.values())
        case list() | tuple():
            return bool(value) and all(has_only_tensors(item) for item in value)
    return isinstance(value, torch.Tensor)


def is_passed_to_artifact(value: Any, *, scripted: bool) -> bool:
    """Whether a method takes it: what `is_traced` says of its structure."""
    if isinstance(value, LeftOut):
        return scripted and _is_short(value.default)
    return scripted or has_tensors(value)


def strip_baked(value: Any, *, scripted: bool = False) -> Any:
    """The value without what is baked in; one that `is_passed_to_artifact`."""
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
    """`handed_over` undone: what was given, with everything else as in the example."""
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
    """A scripted method takes a plain one like any value; another one is in its schema, as it is in a trace."""
    if not _is_short(left_out.default):
        return BakedLeaf(baked=_describe_object(left_out.default))
    return describe(left_out.default, name, scripted=scripted)


def _is_short(value: Any) -> bool:
    """Whether it is plain JSON, and little of it. Of exact types: an IntEnum is no int to a reader of JSON."""
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
    """Short, and the same in each process: many an object's repr is its address."""
    match value:
        case torch.Tensor():
            return f"<{value.dtype} of shape {list(value.shape)}>"
        case float() | torch.dtype() | torch.device():
            return str(value)
        case Mapping() | list() | tuple():
            return f"<{type(value).__name__} of {len(value)}>"
    return f"<{type(value).__name__}>"
