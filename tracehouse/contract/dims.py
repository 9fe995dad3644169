"""Dims: the sizes of an input's dimensions, as numbers or as linear expressions of symbols.

A dim is a number of elements, or an expression such as `batch`, `2*seq`, `past+new`, `seq-1`. `(samples-10)//5` is the
quotient, rounded down, as a convolution with a stride computes it. Dims with the same symbol vary together. `regions`
says which sizes the symbols may have.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Annotated, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

# In elements. Processors of today address 48 bits of memory, so no tensor's dim has more values.
SIZE_MAX = 2**48
SYMBOL_PATTERN = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_QUOTIENT = re.compile(r"\((?P<inside>[^()]+)\)//(?P<over>[1-9]\d{0,8})")
_TERM = re.compile(rf"(?P<sign>[+-]?)(?:(?P<times>\d{{1,9}})\*)?(?P<symbol>{SYMBOL_PATTERN})|(?P<plus>[+-]?\d{{1,15}})")


@dataclass(frozen=True)
class Linear:
    """A dim as a linear expression: the sum of `times * symbol` over `terms`, plus the number `plus`.

    Where `over` is not 1, the dim is that sum divided by it, rounded down.
    """

    terms: tuple[tuple[str, int], ...]
    plus: int = 0
    over: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an expression such as `2*seq+1` or `(seq+1)//2`. Raises ValueError if it is none, or has no symbol."""
        terms: dict[str, int] = {}
        plus, place = 0, 0
        compact = text.replace(" ", "")
        quotient = _QUOTIENT.fullmatch(compact)
        over = int(quotient["over"]) if quotient else 1
        compact = quotient["inside"] if quotient else compact
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
        return cls(tuple((symbol, times) for symbol, times in terms.items() if times), plus, over)

    @property
    def is_rounded(self) -> bool:
        """Whether several sizes of a symbol give the same dim, so that the dim does not say the symbol's size."""
        return self.over != 1

    def renamed(self, names: Mapping[str, str]) -> "Linear":
        """Return the expression with these names for its symbols. Raises KeyError if one has none."""
        return replace(self, terms=tuple((names[symbol], times) for symbol, times in self.terms))

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the size of the dim if the symbols have these sizes. Raises KeyError if one is missing."""
        total = self.plus + sum(times * sizes[symbol] for symbol, times in self.terms)
        return total // self.over if self.is_rounded else total

    def solve_for_unknown(self, size: int, sizes: Mapping[str, int]) -> tuple[str, int] | None:
        """Return the one symbol that is not in `sizes`, and its value if the dim has this size.

        None if not exactly one symbol is unknown, if its value would not be a whole number from 0 on, or if the dim is
        rounded.
        """
        unknown = [(symbol, times) for symbol, times in self.terms if symbol not in sizes]
        if len(unknown) != 1 or self.is_rounded:
            return None
        symbol, times = unknown[0]
        known = sum(other_times * sizes[other] for other, other_times in self.terms if other != symbol)
        value, rest = divmod(size - self.plus - known, times)
        return None if rest or value < 0 else (symbol, value)

    def __str__(self) -> str:
        parts = [("" if times == 1 else "-" if times == -1 else f"{times}*") + symbol for symbol, times in self.terms]
        text = "+".join(parts) + (f"{self.plus:+d}" if self.plus else "")
        text = text.replace("+-", "-")
        return f"({text})//{self.over}" if self.is_rounded else text


@lru_cache(maxsize=4096)
def parse_dim(text: str) -> Linear:
    """Parse as `Linear.parse` does, with a cache: every inference request needs it. Raises ValueError."""
    return Linear.parse(text)


def _canonical_expression(text: str) -> str:
    try:
        return str(parse_dim(text))
    except ValueError as error:
        how = (
            "write a size as in `seq`, `2*seq`, `past+new`, `(seq+1)//2`, with symbols of letters a to z, digits and _"
        )
        raise PydanticCustomError("size", how) from error


Symbol = Annotated[str, Field(pattern=rf"^{SYMBOL_PATTERN}$")]
Expression = Annotated[str, Field(max_length=400), AfterValidator(_canonical_expression)]
SymbolicDim = Annotated[int, Field(strict=True, ge=0, le=SIZE_MAX)] | Expression
# At most 32 dims, as in `tracehouse.tensors.tensor.Shape`.
SymbolicShape = Annotated[tuple[SymbolicDim, ...], Field(max_length=32)]


def shape_at(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape as numbers, if the symbols have these sizes. Raises KeyError if one is missing."""
    return tuple(dim if isinstance(dim, int) else parse_dim(dim).at(sizes) for dim in shape)


def is_rounded(dim: int | str) -> bool:
    """Whether the dim is a quotient that is rounded down."""
    return isinstance(dim, str) and parse_dim(dim).is_rounded


def symbols_of(shape: Iterable[int | str]) -> set[str]:
    """Return the symbols in the shape's expressions."""
    return {symbol for dim in shape if isinstance(dim, str) for symbol, _ in parse_dim(dim).terms}


def format_shape(shape: SymbolicShape) -> str:
    """Format a shape as text: `[batch, 8]`."""
    return f"[{', '.join(map(str, shape))}]"


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Format sizes for a sentence: `batch 3, seq 16`."""
    return ", ".join(f"{symbol} {size}" for symbol, size in sizes.items())


@dataclass(frozen=True)
class SizeConflict:
    """A dim whose size contradicts the sizes that other dims give to its symbols.

    `shape` is the index of the shape among the shapes that were solved, `dim` the index of the dim in that shape.
    `sizes` has the symbols' sizes that other dims gave, and `because` the (shape, dim) of each of those. `expected` is
    the size that follows from them; it is None if no sizes from 0 on can give the dim's own size.
    """

    shape: int
    dim: int
    expected: int | None
    sizes: dict[str, int]
    because: tuple[tuple[int, int], ...]


def solve_or_conflict(shapes: Sequence[tuple[SymbolicShape, Sequence[int]]]) -> dict[str, int] | SizeConflict:
    """Return the size of each symbol at which the symbolic shapes have these sizes, or the first dim that conflicts.

    `shapes` are pairs of a symbolic shape and its sizes, which have the same length. The method is substitution: a dim
    with one unknown symbol gives that symbol's size, which may leave another dim with only one unknown symbol. So every
    symbol must stand alone in some dim, or beside symbols that can be solved. A rounded dim gives no symbol's size.
    """
    left = [
        (parse_dim(dim), size, (number, place))
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
            if len(unknown) > 1 or (unknown and dim.is_rounded):
                waiting.append((dim, size, place))
                continue
            solved = dim.solve_for_unknown(size, found)
            if solved is None:
                return _conflict(dim, place, found, where)
            found[solved[0]], where[solved[0]] = solved[1], place
        if len(waiting) == len(left):
            return _conflict(waiting[0][0], waiting[0][2], found, where)
        left = waiting
    return found


def _conflict(
    dim: Linear, place: tuple[int, int], found: Mapping[str, int], where: Mapping[str, tuple[int, int]]
) -> SizeConflict:
    sizes = {symbol: found[symbol] for symbol, _ in dim.terms if symbol in found}
    expected = dim.at(sizes) if len(sizes) == len(dim.terms) else None
    expected = None if expected is None or expected < 0 else expected
    return SizeConflict(*place, expected, sizes, tuple(where[symbol] for symbol in sizes))


def solve(shapes: Sequence[tuple[SymbolicShape, Sequence[int]]]) -> dict[str, int] | None:
    """Return the size of each symbol as `solve_or_conflict` does, or None if there is a conflict."""
    found = solve_or_conflict(shapes)
    return found if isinstance(found, dict) else None


def fit_dim(seen: Sequence[tuple[Mapping[str, int], int]]) -> int | str | None:
    """Return the dim that was seen with these sizes: a number, or the one expression that gives all of them.

    Each item of `seen` is the size of every symbol, and the size that the dim had there. None if some symbol had one
    size only, if no expression gives all the sizes, or if several do.
    """
    symbols = [*seen[0][0]]
    if any(len({sizes[symbol] for sizes, _ in seen}) < 2 for symbol in symbols):
        return None
    if len({size for _, size in seen}) == 1:
        return seen[0][1]
    fitting = {
        str(dim) for dim in _candidate_expressions(symbols, seen) if all(dim.at(sizes) == size for sizes, size in seen)
    }
    return fitting.pop() if len(fitting) == 1 else None


def _candidate_expressions(symbols: Sequence[str], seen: Sequence[tuple[Mapping[str, int], int]]) -> Iterator[Linear]:
    """Yield each symbol alone and, if at least three sizes can tell them apart, sums of two symbols and lines."""
    yield from (Linear(((symbol, 1),)) for symbol in symbols)
    if len({tuple(sizes.values()) for sizes, _ in seen}) > 2:
        yield from (Linear(((first, 1), (second, 1))) for first, second in combinations(symbols, 2))
    for symbol in symbols:
        by_size = {sizes[symbol]: size for sizes, size in seen}
        low, high = min(by_size), max(by_size)
        times, rest = divmod(by_size[high] - by_size[low], high - low)
        if len(by_size) > 2 and times and not rest:
            yield Linear(((symbol, times),), by_size[low] - times * low)
