"""Regions: the boxes of sizes that a contract accepts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from tracehouse.contract.dims import SIZE_MAX, Symbol
from tracehouse.frozen import Frozen, with_new_names

# How many regions a contract may have, and how many spans a symbol may have in one of them. Chosen: each request is
# compared with all of them.
REGIONS_MAX = 64
SPANS_MAX = 256

# How it is known that the artifact is right at the sizes of a region, from the best basis to the weakest:
# proven: both run the same operators at every size, on numbers that are equal to the last bit, whichever values the
#   model reads.
# sampled: the same, but for a path that input values can take, or for the last bits of a number that is computed from
#   sizes. For these, calls at the ends of the region and at random sizes inside agreed.
# tested: the model and the artifact were both called at each of these sizes. Other values can show a difference.
# observed: only the example was called.
Basis = Literal["proven", "sampled", "tested", "observed"]
_RANKS: dict[Basis, int] = {basis: rank for rank, basis in enumerate(get_args(Basis))}
# How many lines a person reads of the sizes of a method. The contract itself has all.
LISTED_MAX = 5


class Span(Frozen):
    """The sizes `low`, `low + step`, and so on, up to `high`."""

    low: int = Field(ge=0, le=SIZE_MAX)
    high: int = Field(ge=0, le=SIZE_MAX)
    step: int = Field(1, ge=1, le=SIZE_MAX)

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
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
    """A box of sizes. Every combination of them is answered, and was found to be right on the `basis`."""

    spans: dict[Symbol, Spans] = Field(max_length=64, description="For each symbol, the sizes that it may have here.")
    basis: Basis = Field(
        description="How these sizes are known to be right. What is `proven` or `sampled` was found by the process "
        "that traced, which ran the submitted code; `called` has the sizes that the service called itself. "
        "`proven`: the Python and the traced graph, run on symbols, "
        "compute the same for every size, to the last bit of each number that is computed from sizes, and whichever "
        "values the model reads. `sampled`: the same, but for other paths that input values can take, or for the last "
        "bits of a number that is computed from sizes; calls at the ends and at random sizes inside agreed. `tested`: "
        "the model and the artifact were called at each of these sizes, and agreed on the values of these calls. "
        "`observed`: only the example was called."
    )

    beyond: dict[Symbol, Annotated[int, Field(ge=0, le=SIZE_MAX)]] = Field(
        {},
        max_length=64,
        description="Symbols whose last span goes on in the same steps, up to this size. These sizes are `proven` too; "
        "called were only some just beyond the span. `memory` of the method bounds them: a call whose sizes need more "
        "than the service allows is refused.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_old_name(cls, document: Any) -> Any:
        return with_new_names(document, {"known": "basis"})

    @model_validator(mode="after")
    def _check_beyond(self) -> Self:
        if any(symbol not in self.spans or high < self.spans[symbol][-1].high for symbol, high in self.beyond.items()):
            raise PydanticCustomError("beyond", "sizes go on beyond spans that the region does not have")
        if self.beyond and self.basis != "proven":
            raise PydanticCustomError("beyond", "only sizes that are proven go on beyond those that were called")
        return self

    @property
    def within_calls(self) -> Self:
        """The region without the sizes beyond those that were called."""
        return self.model_copy(update={"beyond": {}})

    @property
    def whole_spans(self) -> dict[str, list[Span]]:
        """The spans with all sizes: those that were called, and those beyond."""
        whole = {symbol: [*spans] for symbol, spans in self.spans.items()}
        for symbol, high in self.beyond.items():
            whole[symbol][-1] = whole[symbol][-1].model_copy(update={"high": high})
        return whole

    def contains(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes lie in the region. Raises KeyError if a symbol of the region has no size."""
        return next(self.symbols_outside(sizes), None) is None

    def contains_within_calls(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes lie in the region, none of them beyond the sizes that were called."""
        return all(any(sizes[symbol] in span for span in spans) for symbol, spans in self.spans.items())

    def symbols_outside(self, sizes: Mapping[str, int]) -> Iterator[str]:
        """Yield the symbols whose sizes lie outside the region."""
        return (symbol for symbol in self.spans if not self._has(symbol, sizes[symbol]))

    def _has(self, symbol: str, size: int) -> bool:
        """Whether the symbol may have the size. Most requests lie within the spans, which is seen at once."""
        return any(size in span for span in self.spans[symbol]) or (
            symbol in self.beyond and size in self.whole_spans[symbol][-1]
        )

    def count(self) -> int:
        """Return how many combinations of sizes it has. Spans have no size in common."""
        whole = self.whole_spans.values()
        return prod(sum(len(range(one.low, one.high + 1, one.step)) for one in spans) for spans in whole)

    def __str__(self) -> str:
        """Return the sizes in words, without those beyond."""
        return ", ".join(f"{symbol} {' or '.join(map(str, spans))}" for symbol, spans in self.spans.items())


def list_regions(regions: Sequence[Region]) -> tuple[list[Region], str]:
    """Return the regions that a person reads, the best known and largest first, and a line on all others, or none."""
    ranked = sorted((one for one in regions if one.spans), key=lambda one: (_RANKS[one.basis], -one.count()))
    if len(ranked) <= LISTED_MAX:
        return ranked, ""
    left = ranked[LISTED_MAX - 1 :]
    counts = Counter(one.basis for one in left)
    kinds = ", ".join(f"{number} {basis}" for basis, number in counts.items())
    return ranked[: LISTED_MAX - 1], f"and {len(left)} smaller or less sure regions: {kinds}"


def describe_beyond(regions: Iterable[Region]) -> str:
    """Return the sizes beyond the spans in words: `batch to 16777216, seq to 4096`; nothing if there are none."""
    farthest: dict[str, int] = {}
    for region in regions:
        for symbol, high in region.beyond.items():
            farthest[symbol] = max(high, farthest.get(symbol, 0))
    return ", ".join(f"{symbol} to {high}" for symbol, high in farthest.items())


Regions = Annotated[list[Region], Field(max_length=REGIONS_MAX)]
