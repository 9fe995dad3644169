"""How arguments and outputs nest: Python containers of tensors, and the contract's words for them.

An archive's methods take tensors, in containers nested as the contract says. Everything else (numbers, strings, None,
containers without a tensor in them) was baked in when it was traced, and is left out of what is handed over.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from service.domain.contract import BakedLeaf, DictNode, ListNode, Structure, TensorLeaf, TupleNode


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf under its path, left to right: `x`, `pair.0`, `batch.ids`."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield from leaves(item, f"{name}.{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from leaves(item, f"{name}.{index}")
        case _:
            yield name, value


def tensors(value: Any, name: str) -> dict[str, torch.Tensor]:
    """The tensors among the leaves."""
    return {path: leaf for path, leaf in leaves(value, name) if isinstance(leaf, torch.Tensor)}


def describe(value: Any, name: str) -> Structure:
    """What the contract says of a value that stands under that path."""
    if not has_tensors(value):
        return BakedLeaf(baked=_json(value))
    match value:
        case Mapping():
            return DictNode(mapping={str(key): describe(item, f"{name}.{key}") for key, item in value.items()})
        case tuple():
            return TupleNode(tuple=[describe(item, f"{name}.{index}") for index, item in enumerate(value)])
        case list():
            return ListNode(list=[describe(item, f"{name}.{index}") for index, item in enumerate(value)])
    return TensorLeaf(tensor=name)


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
        case BakedLeaf():
            raise TypeError("a baked value is not handed over")


def is_traced(structure: Structure) -> bool:
    """Whether a value of this structure is handed over."""
    return not isinstance(structure, BakedLeaf)


def has_tensors(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for _, leaf in leaves(value, ""))


def only_tensors(value: Any) -> bool:
    """Whether it is handed over whole."""
    match value:
        case Mapping():
            return bool(value) and all(only_tensors(item) for item in value.values())
        case list() | tuple():
            return bool(value) and all(only_tensors(item) for item in value)
    return isinstance(value, torch.Tensor)


def handed_over(value: Any) -> Any:
    """The value without what is baked in; it must hold a tensor."""
    match value:
        case Mapping():
            return {key: handed_over(item) for key, item in value.items() if has_tensors(item)}
        case tuple():
            return tuple(handed_over(item) for item in value if has_tensors(item))
        case list():
            return [handed_over(item) for item in value if has_tensors(item)]
    return value


def completed(example: Any, given: Any) -> Any:
    """`handed_over` undone: what was given, with everything else as in the example."""
    if not has_tensors(example):
        return example
    match example:
        case Mapping():
            return {key: completed(item, given[key]) if has_tensors(item) else item for key, item in example.items()}
        case list() | tuple():
            remaining = iter(given)
            items = [completed(item, next(remaining)) if has_tensors(item) else item for item in example]
            return tuple(items) if isinstance(example, tuple) else items
    return given


def _json(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _json(item) for key, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
    return repr(value)
