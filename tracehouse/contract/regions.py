"""Regions: the boxes of sizes that a contract takes."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.dims import SIZE_MAX, Symbol
from tracehouse.frozen import Frozen, with_new_names

REGIONS_MAX = 64

SPANS_MAX = 256

# proven: for every size of it, by the symbolic run.
# sampled: proven for the way that the model takes on tensors without values; where it takes another one on real values,
# by calls at its ends and at random inside.
# tested: by a call of both at each of these sizes.
# observed: on the example alone.
Basis = Literal["proven", "sampled", "tested", "observed"]


class Span(Frozen):
    """`low`, `low + step`, and so on, up to `high`."""

    low: int = Field(ge=0, le=SIZE_MAX)
    high: int = Field(ge=0, le=SIZE_MAX)
    step: int = Field(1, ge=1, le=SIZE_MAX)

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.low > self.high:
            raise PydanticCustomError("span", "low is above high")
        return self

    def __contains__(self, size: int) -> bool:
        return self.low <= size <= self.high and (size - self.low) % self.step == 0

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        return f"{self.low} to {self.high}" + (f" in steps of {self.step}" if self.step > 1 else "")


Spans = Annotated[list[Span], Field(min_length=1, max_length=SPANS_MAX)]


class Region(Frozen):
    """A box of sizes, each combination of which is known to be right in the same way."""

    spans: dict[Symbol, Spans] = Field(max_length=64, description="By symbol, the sizes that it may have here.")
    basis: Basis = Field(
        description="`proven`: for every size, by running the Python and the traced graph on symbols. `sampled`: so "
        "for one way through the model; on others, which its inputs' values take, by calls at the ends and at random "
        "inside. `tested`: by a call at each of these very sizes. `observed`: on the example alone."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"known": "basis"})

    def has(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes, one for each of its symbols, lie in it."""
        return next(self.missed(sizes), None) is None

    def missed(self, sizes: Mapping[str, int]) -> Iterator[str]:
        """The symbols whose sizes lie outside."""
        return (symbol for symbol, spans in self.spans.items() if not any(sizes[symbol] in span for span in spans))

    def __str__(self) -> str:
        return ", ".join(f"{symbol} {' or '.join(map(str, spans))}" for symbol, spans in self.spans.items())


Regions = Annotated[list[Region], Field(max_length=REGIONS_MAX)]
