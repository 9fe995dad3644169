"""A bound call: one call of a trace request, with its inputs bound to the method's parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracehouse.contract.structure import Argument, Structure
from tracehouse.tensors.tensor import Tensor, TensorSpec


@dataclass(frozen=True)
class BoundCall:
    """A call of the request. `case` is its name there, and `inputs` are the tensors in `arguments`.

    `keywords` are the names of the arguments that `**kwargs` takes. `returns` is how what the eager model returns on
    the method's example nests, once that is known.
    """

    case: str
    method: str
    arguments: list[Argument]
    inputs: list[Tensor]
    keywords: Sequence[str] = ()
    returns: Structure | None = None

    @property
    def specs(self) -> list[TensorSpec]:
        """The inputs' names, datatypes and shapes."""
        return [tensor.spec for tensor in self.inputs]
