"""Free sizes: what a method accepts of each size that may vary, and of each range of values, and how that is known.

It is the contract seen one size at a time, for a picture and the table beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from tracehouse.contract.contract import MethodContract
from tracehouse.contract.regions import Basis, Region, Span

# How many spans of a size are listed; the contract has all of them. Chosen: more than a person reads.
SPANS_MAX = 24


@dataclass(frozen=True, slots=True)
class Accepted:
    """Sizes or values that are accepted, from `low` to `high`, and how that is known. None: no limit on that side.

    `needs_memory`: they lie beyond the sizes that were called, and are accepted if memory allows.
    """

    low: int | None
    high: int | None
    step: int
    basis: Basis
    needs_memory: bool = False

    @property
    def words(self) -> str:
        """The sizes or values in words, with separators between thousands."""
        if self.low is not None and self.low == self.high:
            return f"{self.low:,}"
        low = "any" if self.low is None else f"{self.low:,}"
        high = "any" if self.high is None else f"{self.high:,}"
        return f"{low} to {high}" + (f" in steps of {self.step:,}" if self.step > 1 else "")

    @property
    def known(self) -> str:
        """How it is known, in the contract's word."""
        return f"{self.basis}, if memory allows" if self.needs_memory else self.basis


@dataclass(frozen=True, slots=True)
class FreeSize:
    """What one size, or the values of one input, may be.

    `spans_left_out` is how many spans are not listed. `together_up_to` is how many rows the batch certificate covers;
    None if it is not about this size. Of values, `example` is None and `wrong` empty.
    """

    name: str
    is_values: bool
    accepted: list[Accepted]
    spans_left_out: int
    example: int | None
    called: list[int]
    wrong: list[int]
    together_up_to: int | None

    @property
    def words(self) -> str:
        """What is accepted and how that is known: `1 to 256 (proven); 257 to 512 (tested)`."""
        said = [f"{one.words} ({one.known})" for one in self.accepted]
        if self.spans_left_out:
            said.append(f"and {self.spans_left_out} smaller or less sure")
        return "; ".join(said)


def free_sizes(method: MethodContract) -> list[FreeSize]:
    """Return the symbols of the method's shapes, in the order of the inputs, and the inputs with a range of values."""
    example = method.example_sizes or {}
    regions = [region for region in method.regions if region.spans]
    sizes = [_of_symbol(method, symbol, regions, size) for symbol, size in example.items() if regions]
    return [*sizes, *_ranges(method)]


def needs_combinations(method: MethodContract) -> bool:
    """Whether sizes are accepted in some combinations only, so that one size at a time does not say everything."""
    regions = [region for region in method.regions if region.spans]
    return len(regions) > 1 and len(regions[0].spans) > 1


def _of_symbol(method: MethodContract, symbol: str, regions: Sequence[Region], example: int) -> FreeSize:
    accepted = [*_accepted(symbol, regions)]
    batch = method.batch
    return FreeSize(
        name=symbol,
        is_values=False,
        accepted=accepted[:SPANS_MAX],
        spans_left_out=max(0, len(accepted) - SPANS_MAX),
        example=example,
        called=sorted({sizes[symbol] for sizes in method.called}),
        # With several symbols, a size is wrong in a combination only, which the size alone does not say.
        wrong=sorted({sizes[symbol] for sizes in method.wrong}) if len(method.symbols) == 1 else [],
        together_up_to=batch.up_to if batch is not None and batch.symbol == symbol else None,
    )


def _accepted(symbol: str, regions: Sequence[Region]) -> Iterator[Accepted]:
    """Yield the symbol's sizes of all regions, the best known first, without what is known better already."""
    known: list[Span] = []
    for basis in get_args(Basis):
        own = {span for region in regions if region.basis == basis for span in region.spans[symbol]}
        for span in sorted(own, key=lambda one: (one.low, -one.high, one.step)):
            if not any(_covers(one, span) for one in known):
                known.append(span)
                yield Accepted(span.low, span.high, span.step, basis)
    ends = {(region.spans[symbol][-1], region.beyond[symbol]) for region in regions if symbol in region.beyond}
    for span, high in sorted(ends, key=lambda one: -one[1])[:1]:
        if high > span.high:
            yield Accepted(span.high + span.step, high, span.step, "proven", needs_memory=True)


def _covers(whole: Span, part: Span) -> bool:
    return part.low in whole and part.high in whole and (part.low == part.high or part.step % whole.step == 0)


def _ranges(method: MethodContract) -> Iterator[FreeSize]:
    for spec in method.inputs:
        if spec.values is not None:
            taken = Accepted(spec.values.low, spec.values.high, 1, spec.values.basis)
            yield FreeSize(f"values of {spec.name}", True, [taken], 0, None, [], [], None)
