"""An input spec: one input tensor's datatype, symbolic shape, reasons why dims are fixed, and range of values."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.dims import Linear, SymbolicShape, parse_dim
from tracehouse.contract.regions import Basis
from tracehouse.frozen import Frozen, with_new_names
from tracehouse.tensors.tensor import Datatype, Shape, Tensor, TensorSpec

# Why a dim has only one size. model: the eager model refuses other sizes. trace: the artifact answers another size
# differently from the eager model. untried: no other size was tried.
Reason = Literal["model", "trace", "untried"]


# From the smallest value of an INT64 to the largest of a UINT64.
Integer = Annotated[int, Field(ge=-(2**63), lt=2**64)]


class ValueRange(Frozen):
    """The integers that the eager model takes, such as the ids of a vocabulary. Null: no limit on that side."""

    low: Integer | None = None
    high: Integer | None = None
    basis: Basis

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"known": "basis"})

    def contains(self, low: int, high: int) -> bool:
        """Whether all values from `low` to `high` lie in the range."""
        return (self.low is None or self.low <= low) and (self.high is None or high <= self.high)

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.low is None and self.high is None:
            raise PydanticCustomError("values", "a range of values needs low or high")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise PydanticCustomError("values", "low is above high")
        return self


Datatypes = Annotated[list[Datatype], Field(max_length=len(Datatype))]


class InputSpec(Frozen):
    """One input tensor of a method.

    A dim of its shape is a number or an expression of symbols: `2*seq`, `past+new`, `(seq+1)//2`.
    """

    name: str
    datatype: Datatype
    shape: SymbolicShape
    example: Shape = Field((), description="The shape of the example input.")
    fixed: dict[str, Reason] = Field(
        {},
        description="For each fixed dim, by its place, why it is fixed. `model`: the model refuses other sizes. "
        "`trace`: the artifact answers other sizes wrongly. `untried`: no other size was tried.",
    )
    values: ValueRange | None = Field(None, description="Null: every value of the datatype.")
    datatypes: Datatypes = Field(
        [],
        description="The datatypes that the tensor may have if it may have several, `datatype` first. The artifact "
        "computes with the tensor as it is sent. Empty: only `datatype`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_release(cls, spec: Any) -> Any:
        """Read a contract of an earlier release, whose shapes had only numbers: those of the example."""
        return {"example": spec["shape"], **spec} if isinstance(spec, dict) and "shape" in spec else spec

    @model_validator(mode="after")
    def _check_fits_example(self) -> Self:
        numbers = {str(place): dim for place, dim in enumerate(self.shape) if isinstance(dim, int)}
        if len(self.shape) != len(self.example) or any(self.example[int(at)] != dim for at, dim in numbers.items()):
            raise PydanticCustomError("example", "a number in the shape differs from the example's shape")
        if not self.fixed.keys() <= numbers.keys():
            raise PydanticCustomError("fixed", "a dim has a reason to be fixed, and is not fixed")
        if self.values is not None and not self.datatype.is_integer:
            raise PydanticCustomError("values", "only integers have a range of values")
        return self

    @model_validator(mode="after")
    def _check_datatypes(self) -> Self:
        alike = all((one.is_float, one.is_integer) == (self.datatype.is_float, self.datatype.is_integer)
                    for one in self.datatypes)  # fmt: skip
        if self.datatypes and (self.datatypes[0] is not self.datatype or not alike):
            raise PydanticCustomError(
                "datatypes", "the datatypes do not begin with the datatype, or are of other kinds"
            )
        return self

    @property
    def accepted_datatypes(self) -> list[Datatype]:
        """The datatypes that the tensor may have."""
        return self.datatypes or [self.datatype]

    @classmethod
    def from_example(cls, spec: TensorSpec) -> Self:
        """Return the spec that accepts the example's shape and no other."""
        fixed: dict[str, Reason] = {str(dim): "untried" for dim in range(len(spec.shape))}
        return cls(name=spec.name, datatype=spec.datatype, shape=spec.shape, example=spec.shape, fixed=fixed)

    def reason(self, dim: int) -> Reason:
        """Return why the dim of this index, from 0 on, is fixed; `untried` if no reason is known."""
        return self.fixed.get(str(dim), "untried")

    @property
    def expressions(self) -> dict[int, Linear]:
        """The dims that are expressions, by their indices."""
        return {place: parse_dim(dim) for place, dim in enumerate(self.shape) if isinstance(dim, str)}


def ranks_of(inputs: Iterable[InputSpec | Tensor | TensorSpec]) -> dict[str, int]:
    """Return the number of dims of each input by name."""
    return {one.name: len(one.shape) for one in inputs}
