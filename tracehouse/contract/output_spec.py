"""An output spec: one output tensor's datatype, and its shape as far as calls at several sizes show it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from tracehouse.contract.dims import SIZE_MAX, Expression, SymbolicShape, fit_dim, symbols_of
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Datatype, TensorSpec

# A number of elements, an expression of symbols, or -1 for a size that is not known before the call.
OutputDim = Annotated[int, Field(strict=True, ge=-1, le=SIZE_MAX)] | Expression


class OutputSpec(Frozen):
    """One output tensor. A dim of its shape is a number, an expression of symbols, or -1 if neither fits."""

    name: str
    datatype: Datatype = Field(description="The datatype where each input has its first one, as in the example.")
    shape: tuple[OutputDim, ...]
    datatype_of: str | None = Field(
        None,
        description="The name of the input whose datatype the output always has, if that input may have several. Null: "
        "the output is always `datatype`.",
    )

    @classmethod
    def from_example(cls, spec: TensorSpec) -> Self:
        """Return the spec that has the example's shape."""
        return cls(name=spec.name, datatype=spec.datatype, shape=spec.shape)

    @property
    def datatype_text(self) -> str:
        """The datatype, or which input's it is, for a person."""
        return self.datatype.value if self.datatype_of is None else f"as {self.datatype_of}"

    @property
    def shape_in_words(self) -> SymbolicShape:
        """The shape for a person: `any` for a size that is not known before the call."""
        return tuple("any" if dim == -1 else dim for dim in self.shape)

    @property
    def symbols(self) -> set[str]:
        """The symbols in the shape."""
        return symbols_of(self.shape)


# Calls at several sizes: for each the size of every symbol, and the specs of the tensors that it returned.
Answers = Sequence[tuple[Mapping[str, int], Sequence[TensorSpec | OutputSpec]]]


def fit_outputs(outputs: Sequence[OutputSpec], free: Sequence[str], answers: Answers) -> list[OutputSpec]:
    """Return the outputs with the shapes that fit all answers; a dim that no expression fits becomes -1.

    `free` are the symbols that vary. If the rank of an output varies, every dim of its shape is -1. Raises ValueError
    if an answer lacks an output.
    """
    found = []
    for spec in outputs:
        seen = [({one: sizes[one] for one in free}, _shape_of(spec.name, specs)) for sizes, specs in answers]
        same_rank = all(len(shape) == len(spec.shape) for _, shape in seen)
        dims = [
            fit_dim([(sizes, shape[at]) for sizes, shape in seen]) if same_rank else None
            for at in range(len(spec.shape))
        ]
        found.append(spec.model_copy(update={"shape": tuple(-1 if dim is None else dim for dim in dims)}))
    return found


def _shape_of(name: str, specs: Iterable[TensorSpec | OutputSpec]) -> Sequence[Any]:
    found = next((spec.shape for spec in specs if spec.name == name), None)
    if found is None:
        raise ValueError(f"an answer has no output {name!r}")
    return found
