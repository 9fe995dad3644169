"""An output leaf of a method: its datatype, and its shape as far as answers of several sizes tell it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from tracehouse.contract.dims import SIZE_MAX, Expression, fitted, symbols_of
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, TensorSpec

OutputDim = Annotated[int, Field(strict=True, ge=-1, le=SIZE_MAX)] | Expression


class OutputSpec(Frozen):
    """An output leaf. A dim of its shape is a number, an expression of symbols, or -1 where it is neither."""

    name: str
    datatype: Datatype
    shape: tuple[OutputDim, ...]

    @classmethod
    def observed(cls, spec: TensorSpec) -> Self:
        """As the example has it, and nothing else."""
        return cls(name=spec.name, datatype=spec.datatype, shape=spec.shape)

    @property
    def symbols(self) -> set[str]:
        return symbols_of(self.shape)


# What was returned, at which sizes of the symbols.
Answers = Sequence[tuple[Mapping[str, int], Sequence[TensorSpec | OutputSpec]]]


def as_answered(outputs: Sequence[OutputSpec], free: Sequence[str], answers: Answers) -> list[OutputSpec]:
    """Their shapes as far as the answers tell them. A rank that varies cannot be told: it is the example's."""
    found = []
    for spec in outputs:
        seen = [({one: sizes[one] for one in free}, _shape_of(spec.name, specs)) for sizes, specs in answers]
        same_rank = all(len(shape) == len(spec.shape) for _, shape in seen)
        dims = [
            fitted([(sizes, shape[at]) for sizes, shape in seen]) if same_rank else None
            for at in range(len(spec.shape))
        ]
        found.append(spec.model_copy(update={"shape": tuple(-1 if dim is None else dim for dim in dims)}))
    return found


def _shape_of(name: str, specs: Iterable[TensorSpec | OutputSpec]) -> Sequence[Any]:
    found = next((spec.shape for spec in specs if spec.name == name), None)
    if found is None:
        raise ValueError(f"an answer has no output {name!r}")
    return found
