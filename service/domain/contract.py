"""The contract: which inputs an artifact is right for, and what it returns."""

from collections.abc import Iterable, Iterator, Sequence
from math import copysign
from typing import Literal, Self, Union

from pydantic import JsonValue, model_validator
from pydantic_core import PydanticCustomError

from service.domain.errors import (
    DatatypeMismatch,
    MethodNotFound,
    MissingInput,
    ShapeMismatch,
    UnexpectedInput,
)
from service.domain.frozen import Frozen
from service.domain.tensor import Tensor, TensorSpec


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


class MethodContract(Frozen):
    """Inputs and outputs of one method, flat in the order of their leaves.

    A leaf's name is its path: `x`, `pair.0`, `batch.ids`; an output's begins with `output`.
    """

    arguments: list[Argument]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    returns: Structure

    @model_validator(mode="after")
    def _every_tensor_has_one_place(self) -> Self:
        names = [argument.name for argument in self.arguments]
        if len(set(names)) < len(names):
            raise PydanticCustomError("argument_twice", "two arguments have one name")
        taken = [name for argument in self.arguments for name in tensors_of(argument.structure)]
        _agree(taken, self.inputs, "the arguments hold other tensors than the inputs")
        _agree(list(tensors_of(self.returns)), self.outputs, "what it returns holds other tensors than the outputs")
        return self

    def accept(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """The tensors in the artifact's order. Raises a ContractViolation that names the clause."""
        sent = {tensor.name: tensor for tensor in tensors}
        known = {spec.name for spec in self.inputs}
        for name in sent:
            if name not in known:
                raise UnexpectedInput(f"there is no input {name!r}", input=name, inputs=sorted(known))
        return [_fitting(spec, sent.get(spec.name)) for spec in self.inputs]


class Contract(Frozen):
    """`known` says how the clauses are known: `observed` on the examples, so that nothing else is answered."""

    methods: dict[str, MethodContract]
    known: Literal["observed"] = "observed"

    def method(self, name: str) -> MethodContract:
        """Raises MethodNotFound."""
        if name not in self.methods:
            raise MethodNotFound(f"there is no method {name!r}", method=name, methods=sorted(self.methods))
        return self.methods[name]


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


def _agree(leaves: list[str], specs: list[TensorSpec], otherwise: str) -> None:
    """The same names, each once."""
    if len(set(leaves)) < len(leaves) or sorted(leaves) != sorted(spec.name for spec in specs):
        raise PydanticCustomError("structure", otherwise)


def datatype_mismatch(spec: TensorSpec, actual: str) -> DatatypeMismatch:
    return DatatypeMismatch(
        f"input {spec.name!r} is {actual}, not {spec.datatype}",
        input=spec.name, expected=spec.datatype.value, actual=actual, known="observed",
    )  # fmt: skip


def shape_mismatch(spec: TensorSpec, actual: list[int] | str) -> ShapeMismatch:
    return ShapeMismatch(
        f"input {spec.name!r} is {actual}, not {list(spec.shape)}",
        input=spec.name, expected=list(spec.shape), actual=actual, known="observed",
    )  # fmt: skip


def _fitting(spec: TensorSpec, tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise MissingInput(f"input {spec.name!r} is missing", input=spec.name)
    if tensor.datatype is not spec.datatype:
        raise datatype_mismatch(spec, tensor.datatype.value)
    if tuple(tensor.shape) != spec.shape:
        raise shape_mismatch(spec, list(tensor.shape))
    return tensor
