"""Structure: how the values of a call nest, where tensors stand in it, and what is the same call."""

from collections.abc import Iterable, Iterator, Sequence
from math import copysign
from typing import Union

from pydantic import JsonValue

from tracehouse.frozen import Frozen


class TensorLeaf(Frozen):
    """Where a tensor of that name stands."""

    tensor: str


class BakedLeaf(Frozen):
    """A value that the trace baked in: it must be sent as it was, or left out."""

    baked: JsonValue


class FixedLeaf(Frozen):
    """A value that a scripted method takes, and was tried with this value alone: it must be sent so, or left out."""

    fixed: JsonValue


class ListNode(Frozen):
    """A list, and what stands at each place."""

    list: "Sequence[Structure]"


class TupleNode(Frozen):
    """A tuple, and what stands at each place. JSON has none: it is sent as a list."""

    tuple: "Sequence[Structure]"


class DictNode(Frozen):
    """A dict, and what stands under each key. It is handed over in this order, which a model may read."""

    mapping: "dict[str, Structure]"


Structure = Union[TensorLeaf, BakedLeaf, FixedLeaf, ListNode, TupleNode, DictNode]  # noqa: UP007 - it refers to itself


class Argument(Frozen):
    """A parameter of the method, under its Python name, and how its value nests."""

    name: str
    structure: Structure


def items_of(structure: Structure) -> list[tuple[str, Structure]]:
    """What nests in it, under its key or its place."""
    match structure:
        case ListNode():
            return [(str(place), item) for place, item in enumerate(structure.list)]
        case TupleNode():
            return [(str(place), item) for place, item in enumerate(structure.tuple)]
        case DictNode():
            return list(structure.mapping.items())
    return []


def tensors_of(structure: Structure) -> Iterator[str]:
    """The names of the tensors in it, left to right."""
    if isinstance(structure, TensorLeaf):
        yield structure.tensor
    for _, item in items_of(structure):
        yield from tensors_of(item)


def same_arguments(example: Iterable[Argument], call: Iterable[Argument]) -> bool:
    """Whether no model can tell them apart but by their tensors.

    1, 1.0 and true are three values, and a dict with its keys in another order is another one.
    """
    return _equal(_as_json(example), _as_json(call), sent=False)


def is_sent_as(value: JsonValue, known: JsonValue) -> bool:
    """Whether a client means the value that is known, which is handed over then.

    JSON's objects have no order, and many a writer drops the `.0` of a float. None makes a float of an integer.
    """
    return _equal(value, known, sent=True)


def _as_json(arguments: Iterable[Argument]) -> JsonValue:
    return [argument.model_dump(mode="json") for argument in arguments]


def _equal(value: JsonValue, known: JsonValue, *, sent: bool) -> bool:
    match value, known:
        case dict(), dict():
            same_keys = value.keys() == known.keys() if sent else list(value) == list(known)
            return same_keys and all(_equal(value[key], item, sent=sent) for key, item in known.items())
        case list(), list():
            pairs = zip(value, known, strict=False)
            return len(value) == len(known) and all(_equal(*pair, sent=sent) for pair in pairs)
        case float() | int(), float() if type(value) is float or (sent and type(value) is int):
            return value == known and copysign(1.0, value) == copysign(1.0, known)
    return type(value) is type(known) and value == known


def baked_otherwise(example: Iterable[Argument], call: Iterable[Argument]) -> tuple[str, str, str] | None:
    """The first value that is baked in on one side alone, or otherwise: its path, and what stands there on each."""
    was, is_ = _values_of(example), _values_of(call)
    for path in [*was, *is_]:
        first, second = was.get(path, _NOTHING), is_.get(path, _NOTHING)
        if first != second and {first, second} - {_NOTHING, _A_TENSOR}:
            return path, first, second
    return None


_NOTHING, _A_TENSOR = "nothing", "a tensor"


def _values_of(arguments: Iterable[Argument]) -> dict[str, str]:
    """What is baked in, by its path, and where tensors stand."""
    found: dict[str, str] = {}
    for argument in arguments:
        _find_values(argument.structure, argument.name, found)
    return found


def _find_values(structure: Structure, path: str, found: dict[str, str]) -> None:
    match structure:
        case BakedLeaf():
            found[path] = repr(structure.baked)
        case TensorLeaf():
            found[path] = _A_TENSOR
    for key, item in items_of(structure):
        _find_values(item, f"{path}.{key}", found)
