"""Structure: how the values of a call nest, and where tensors are in them."""

from collections.abc import Iterable, Iterator, Sequence
from math import copysign
from typing import Union

from pydantic import JsonValue

from tracehouse.frozen import Frozen


class TensorLeaf(Frozen):
    """The place of the tensor with this name."""

    tensor: str


class ComplexLeaf(Frozen):
    """The place of the complex tensor with this name. It is sent as pairs of reals, which its shape ends with."""

    complex: str


class BakedLeaf(Frozen):
    """A value without tensors that the trace baked in.

    In an argument, a request must send the same value or leave it out. In what a method returns, it is a constant.
    """

    baked: JsonValue


class FixedLeaf(Frozen):
    """A value of a scripted method, which was tried with this value only. A request must send it, or leave it out."""

    fixed: JsonValue


class ListNode(Frozen):
    """A list, with the structure of each item."""

    list: "Sequence[Structure]"


class TupleNode(Frozen):
    """A tuple, with the structure of each item. JSON has no tuples: a request sends a list."""

    tuple: "Sequence[Structure]"


class NamedTupleNode(Frozen):
    """A named tuple that a method returns, with the structure of each field. Its leaves are named by their places."""

    namedtuple: "dict[str, Structure]"


class DataclassNode(Frozen):
    """A dataclass that a method returns, with the structure of each field."""

    dataclass: "dict[str, Structure]"


class DictNode(Frozen):
    """A dict, with the structure under each key. The model gets its keys in this order, which it may read."""

    mapping: "dict[str, Structure]"


Structure = Union[  # noqa: UP007 - it refers to itself
    TensorLeaf, ComplexLeaf, BakedLeaf, FixedLeaf, ListNode, TupleNode, NamedTupleNode, DataclassNode, DictNode
]
# Resolve the references now, not at the first use: by then a source may have put a module of this name in sys.modules.
for _node in (ListNode, TupleNode, NamedTupleNode, DataclassNode, DictNode):
    _node.model_rebuild()


class Argument(Frozen):
    """A parameter of a method: its Python name, and the structure of its value."""

    name: str
    structure: Structure


def items_of(structure: Structure) -> list[tuple[str, Structure]]:
    """Return the direct items of a structure, each with its key or, in a list or tuple, its index as text."""
    match structure:
        case ListNode():
            return [(str(place), item) for place, item in enumerate(structure.list)]
        case TupleNode():
            return [(str(place), item) for place, item in enumerate(structure.tuple)]
        case NamedTupleNode():
            return [(str(place), item) for place, item in enumerate(structure.namedtuple.values())]
        case DataclassNode():
            return list(structure.dataclass.items())
        case DictNode():
            return list(structure.mapping.items())
    return []


def leaves_of(structure: Structure, name: str) -> Iterator[tuple[str, Structure]]:
    """Yield the leaves of a structure with their paths, from left to right; `name` is the path of the structure."""
    items = items_of(structure)
    if not items:
        yield name, structure
    for key, item in items:
        yield from leaves_of(item, f"{name}.{key}")


def tensors_of(structure: Structure) -> Iterator[str]:
    """Yield the names of the tensors in a structure, from left to right."""
    match structure:
        case TensorLeaf():
            yield structure.tensor
        case ComplexLeaf():
            yield structure.complex
    for _, item in items_of(structure):
        yield from tensors_of(item)


def complex_tensors_of(structure: Structure) -> set[str]:
    """Return the names of the complex tensors in a structure."""
    return {leaf.complex for _, leaf in leaves_of(structure, "") if isinstance(leaf, ComplexLeaf)}


def has_only_real_tensors(structure: Structure) -> bool:
    """Whether every leaf is the place of a real tensor: no constant, and no complex tensor."""
    return all(isinstance(leaf, TensorLeaf) for _, leaf in leaves_of(structure, ""))


def is_traced_as_it_is(returns: Structure, *, strict: bool) -> bool:
    """Whether torch.jit.trace takes such a value as it is: with `strict`, only tensors and tuples of tensors."""
    match returns:
        case TensorLeaf() | ComplexLeaf():
            return True
        case TupleNode() | NamedTupleNode():
            return all(is_traced_as_it_is(item, strict=strict) for _, item in items_of(returns))
        case ListNode() | DictNode():
            return not strict and all(is_traced_as_it_is(item, strict=strict) for _, item in items_of(returns))
    return False


def same_arguments(example: Iterable[Argument], call: Iterable[Argument]) -> bool:
    """Whether two calls differ in nothing but their tensors.

    1, 1.0 and true are three different values, and a dict with its keys in another order is a different dict.
    """
    return _equal(_as_json(example), _as_json(call), sent=False)


def means_same_value(value: JsonValue, known: JsonValue) -> bool:
    """Whether a client that sends `value` means the `known` value.

    JSON objects have no order, and some JSON writers drop the `.0` of a float: so 1 means 1.0. No writer makes a float
    of an integer: so 1.0 does not mean 1.
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


def find_baked_difference(example: Iterable[Argument], call: Iterable[Argument]) -> tuple[str, str, str] | None:
    """Return the first baked value in which two calls differ, as its path and both values; None if none differs."""
    was, is_ = _values_of(example), _values_of(call)
    for path in [*was, *is_]:
        first, second = was.get(path, _NOTHING), is_.get(path, _NOTHING)
        if first != second and {first, second} - {_NOTHING, _A_TENSOR}:
            return path, first, second
    return None


_NOTHING, _A_TENSOR = "nothing", "a tensor"


def _values_of(arguments: Iterable[Argument]) -> dict[str, str]:
    """Return the baked values and the places of tensors, by their paths."""
    found: dict[str, str] = {}
    for argument in arguments:
        _find_values(argument.structure, argument.name, found)
    return found


def _find_values(structure: Structure, path: str, found: dict[str, str]) -> None:
    match structure:
        case BakedLeaf():
            found[path] = repr(structure.baked)
        case TensorLeaf() | ComplexLeaf():
            found[path] = _A_TENSOR
    for key, item in items_of(structure):
        _find_values(item, f"{path}.{key}", found)
