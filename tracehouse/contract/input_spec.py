"""An input leaf of a method: its datatype, its shape in symbols, why a dim is fixed, and which values it takes."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.dims import Linear, SymbolicShape, linear
from tracehouse.contract.regions import Basis
from tracehouse.frozen import Frozen, with_new_names
from tracehouse.tensors.tensor import Datatype, Shape, TensorSpec

# Why a dim has one size alone. model: eager refuses others. trace: another one is answered otherwise than eager does.
# untried: it was left as the example has it.
Reason = Literal["model", "trace", "untried"]


# From the smallest INT64 to the largest UINT64.
Integer = Annotated[int, Field(ge=-(2**63), lt=2**64)]


class ValueRange(Frozen):
    """Integers beyond which the eager model raises, such as the ids of a vocabulary; null: it has no such end."""

    low: Integer | None = None
    high: Integer | None = None
    basis: Basis

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"known": "basis"})

    def has(self, low: int, high: int) -> bool:
        """Whether values from `low` to `high` lie in it."""
        return (self.low is None or self.low <= low) and (self.high is None or high <= self.high)

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.low is None and self.high is None:
            raise PydanticCustomError("values", "a range of values has an end")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise PydanticCustomError("values", "low is above high")
        return self


class InputSpec(Frozen):
    """An input leaf. A dim of its shape is a number, or an expression of the method's symbols: `2*seq`, `past+new`."""

    name: str
    datatype: Datatype
    shape: SymbolicShape
    example: Shape = Field((), description="The shape that it was traced on.")
    fixed: dict[str, Reason] = Field(
        {},
        description="By its place, why a dim is a number. `model`: the model refuses others. `trace`: the artifact "
        "answers them wrongly. `untried`: nothing is known of them.",
    )
    values: ValueRange | None = Field(None, description="Null: any that the datatype has.")

    @model_validator(mode="before")
    @classmethod
    def _with_its_example(cls, spec: Any) -> Any:
        """Numbers alone are the example's: so they are in contracts that were kept before there were others."""
        return {"example": spec["shape"], **spec} if isinstance(spec, dict) and "shape" in spec else spec

    @model_validator(mode="after")
    def _is_of_its_example(self) -> Self:
        numbers = {str(place): dim for place, dim in enumerate(self.shape) if isinstance(dim, int)}
        if len(self.shape) != len(self.example) or any(self.example[int(at)] != dim for at, dim in numbers.items()):
            raise PydanticCustomError("example", "a number in the shape is not the example's")
        if not self.fixed.keys() <= numbers.keys():
            raise PydanticCustomError("fixed", "a dim has a reason to be fixed, and is not")
        if self.values is not None and not self.datatype.is_integer:
            raise PydanticCustomError("values", "integers alone have a range of values")
        return self

    @classmethod
    def observed(cls, spec: TensorSpec) -> Self:
        """As the example has it, and nothing else."""
        fixed: dict[str, Reason] = {str(dim): "untried" for dim in range(len(spec.shape))}
        return cls(name=spec.name, datatype=spec.datatype, shape=spec.shape, example=spec.shape, fixed=fixed)

    def reason(self, dim: int) -> Reason:
        """Why that dim, a number, is fixed."""
        return self.fixed.get(str(dim), "untried")

    @property
    def expressions(self) -> dict[int, Linear]:
        """The dims that are no numbers, by their place."""
        return {place: linear(dim) for place, dim in enumerate(self.shape) if isinstance(dim, str)}
