"""Dims: which sizes those of a method's inputs may have, together, and how that is known.

A dim is a number, or a linear expression of symbols: `batch`, `2*seq`, `past+new`, `seq-1`. A region is a box: for each
symbol the sizes that it may have there. What a contract takes is the union of its regions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Annotated, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

SIZE_MAX = 2**48
SYMBOL_PATTERN = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_TERM = re.compile(rf"(?P<sign>[+-]?)(?:(?P<times>\d{{1,9}})\*)?(?P<symbol>{SYMBOL_PATTERN})|(?P<plus>[+-]?\d{{1,15}})")


@dataclass(frozen=True)
class Linear:
    """A dim as a sum of symbols, each some times, and a number."""

    terms: tuple[tuple[str, int], ...]
    plus: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError."""
        terms: dict[str, int] = {}
        plus, place = 0, 0
        compact = text.replace(" ", "")
        while place < len(compact):
            term = _TERM.match(compact, place)
            if term is None or (place and compact[place] not in "+-"):
                raise ValueError(f"{text!r} is no size")
            if term["symbol"] is None:
                plus += int(term["plus"])
            else:
                times = int(term["times"] or 1) * (-1 if term["sign"] == "-" else 1)
                terms[term["symbol"]] = terms.get(term["symbol"], 0) + times
            place = term.end()
        if not any(terms.values()):
            raise ValueError(f"{text!r} names no symbol")
        return cls(tuple((symbol, times) for symbol, times in terms.items() if times), plus)

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.plus + sum(times * sizes[symbol] for symbol, times in self.terms)

    def solved(self, size: int, sizes: Mapping[str, int]) -> tuple[str, int] | None:
        """The one symbol in it that is not among `sizes`, and its value where the dim has that size; None if there is
        not exactly one, or no whole number from 0 on for it."""
        unknown = [(symbol, times) for symbol, times in self.terms if symbol not in sizes]
        if len(unknown) != 1:
            return None
        symbol, times = unknown[0]
        known = sum(other_times * sizes[other] for other, other_times in self.terms if other != symbol)
        value, rest = divmod(size - self.plus - known, times)
        return None if rest or value < 0 else (symbol, value)

    def __str__(self) -> str:
        parts = [("" if times == 1 else "-" if times == -1 else f"{times}*") + symbol for symbol, times in self.terms]
        text = "+".join(parts) + (f"{self.plus:+d}" if self.plus else "")
        return text.replace("+-", "-")


@lru_cache(maxsize=4096)
def linear(text: str) -> Linear:
    """`Linear.parse`, remembered: requests are read by it."""
    return Linear.parse(text)


def _expression(text: str) -> str:
    try:
        return str(linear(text))
    except ValueError as error:
        how = "write a size as in `seq`, `2*seq`, `past+new`, with symbols of the letters a to z, digits and _"
        raise PydanticCustomError("size", how) from error


Symbol = Annotated[str, Field(pattern=rf"^{SYMBOL_PATTERN}$")]
Expression = Annotated[str, Field(max_length=400), AfterValidator(_expression)]
SymbolicDim = Annotated[int, Field(strict=True, ge=0, le=SIZE_MAX)] | Expression
SymbolicShape = Annotated[tuple[SymbolicDim, ...], Field(max_length=32)]


def shape_at(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Its dims' sizes where the symbols have these."""
    return tuple(dim if isinstance(dim, int) else linear(dim).at(sizes) for dim in shape)


def symbols_of(shape: Iterable[int | str]) -> set[str]:
    """Those in its expressions."""
    return {symbol for dim in shape if isinstance(dim, str) for symbol, _ in linear(dim).terms}


def listed(sizes: Mapping[str, int]) -> str:
    """As sentences have them: `batch 3, seq 16`."""
    return ", ".join(f"{symbol} {size}" for symbol, size in sizes.items())


@dataclass(frozen=True)
class Conflict:
    """A dim, by its shape's place and its own, whose size no values of its symbols give.

    `expected` is what the values in `sizes` make of it, which are those that the dims `because` gave; None: nothing
    else is at fault, for no whole number from 0 on gives this size.
    """

    shape: int
    dim: int
    expected: int | None
    sizes: dict[str, int]
    because: tuple[tuple[int, int], ...]


def solution(shapes: Sequence[tuple[SymbolicShape, Sequence[int]]]) -> dict[str, int] | Conflict:
    """The value of each symbol, where those shapes are to have these sizes; or the first dim that cannot have its own.

    Every symbol must stand alone in a dim, or beside symbols that do.
    """
    left = [
        (linear(dim), size, (number, place))
        for number, (shape, sizes) in enumerate(shapes)
        for place, (dim, size) in enumerate(zip(shape, sizes, strict=True))
        if isinstance(dim, str)
    ]
    found: dict[str, int] = {}
    where: dict[str, tuple[int, int]] = {}
    while left:
        waiting = []
        for dim, size, place in left:
            unknown = [symbol for symbol, _ in dim.terms if symbol not in found]
            if not unknown and dim.at(found) == size:
                continue
            if len(unknown) > 1:
                waiting.append((dim, size, place))
                continue
            solved = dim.solved(size, found)
            if solved is None:
                return _conflict(dim, place, found, where)
            found[solved[0]], where[solved[0]] = solved[1], place
        if len(waiting) == len(left):
            return _conflict(waiting[0][0], waiting[0][2], found, where)
        left = waiting
    return found


def _conflict(
    dim: Linear, place: tuple[int, int], found: Mapping[str, int], where: Mapping[str, tuple[int, int]]
) -> Conflict:
    sizes = {symbol: found[symbol] for symbol, _ in dim.terms if symbol in found}
    expected = dim.at(sizes) if len(sizes) == len(dim.terms) else None
    return Conflict(*place, expected, sizes, tuple(where[symbol] for symbol in sizes))


def solve(shapes: Sequence[tuple[SymbolicShape, Sequence[int]]]) -> dict[str, int] | None:
    """`solution`; None where no values do."""
    found = solution(shapes)
    return found if isinstance(found, dict) else None


def fitted(seen: Sequence[tuple[Mapping[str, int], int]]) -> int | str | None:
    """The dim of which these sizes were seen, each at some sizes of the symbols: a number, or the one expression that
    gives them all. None where there is none, or where what was seen leaves more than one."""
    symbols = [*seen[0][0]]
    if any(len({sizes[symbol] for sizes, _ in seen}) < 2 for symbol in symbols):
        return None
    if len({size for _, size in seen}) == 1:
        return seen[0][1]
    fitting = {str(dim) for dim in _candidates(symbols, seen) if all(dim.at(sizes) == size for sizes, size in seen)}
    return fitting.pop() if len(fitting) == 1 else None


def _candidates(symbols: Sequence[str], seen: Sequence[tuple[Mapping[str, int], int]]) -> Iterator[Linear]:
    """Each symbol alone, the sums of two, and with three sizes of a symbol also the line through them."""
    yield from (Linear(((symbol, 1),)) for symbol in symbols)
    if len({tuple(sizes.values()) for sizes, _ in seen}) > 2:
        yield from (Linear(((first, 1), (second, 1))) for first, second in combinations(symbols, 2))
    for symbol in symbols:
        by_size = {sizes[symbol]: size for sizes, size in seen}
        low, high = min(by_size), max(by_size)
        times, rest = divmod(by_size[high] - by_size[low], high - low)
        if len(by_size) > 2 and times and not rest:
            yield Linear(((symbol, times),), by_size[low] - times * low)
