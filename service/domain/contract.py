"""The contract: which inputs an artifact is right for, and what it returns."""

from collections.abc import Iterable, Sequence
from typing import Literal, Union

from pydantic import JsonValue

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


class ListNode(Frozen):
    list: "Sequence[Structure]"


class TupleNode(Frozen):
    tuple: "Sequence[Structure]"


class DictNode(Frozen):
    mapping: "dict[str, Structure]"


Structure = Union[TensorLeaf, BakedLeaf, ListNode, TupleNode, DictNode]  # noqa: UP007 - it refers to itself


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


def _fitting(spec: TensorSpec, tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise MissingInput(f"input {spec.name!r} is missing", input=spec.name)
    if tensor.datatype is not spec.datatype:
        raise DatatypeMismatch(
            f"input {spec.name!r} is {tensor.datatype}, not {spec.datatype}",
            input=spec.name, expected=spec.datatype.value, actual=tensor.datatype.value, known="observed",
        )  # fmt: skip
    if tuple(tensor.shape) != spec.shape:
        raise ShapeMismatch(
            f"input {spec.name!r} is {list(tensor.shape)}, not {list(spec.shape)}",
            input=spec.name, expected=list(spec.shape), actual=list(tensor.shape), known="observed",
        )  # fmt: skip
    return tensor
