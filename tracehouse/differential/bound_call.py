"""A bound call: one call of a trace request, its inputs bound to the parameters."""

from dataclasses import dataclass

from tracehouse.contract.structure import Argument
from tracehouse.tensors.tensor import Tensor, TensorSpec


@dataclass(frozen=True)
class BoundCall:
    """A call of the request's: what it is called with."""

    case: str
    method: str
    arguments: list[Argument]
    inputs: list[Tensor]

    @property
    def specs(self) -> list[TensorSpec]:
        return [tensor.spec for tensor in self.inputs]
