"""Choose sizes: at which sizes of its symbols an artifact is compared with the eager model."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, zip_longest

from tracehouse.check.size_groups import Groups
from tracehouse.spec.trace_spec import WantedSizes

# Sizes of several kinds: 1 (which broadcasts), small primes, and a power of two and numbers just past one.
_COMMON = (1, 2, 3, 5, 17, 8, 33, 65)
# The other bounds are choices that keep the calls few and small.
_CORNERS_MAX = 8  # calls of several symbols together
# In such a call, a size above both this and so many times the example's is left out.
_CORNER_SIZE = 17
_CORNER_TIMES_EXAMPLE = 3
_EDGES_MAX = 6  # so many of the sizes that the model compares a symbol with are tried
_SMALL_MAX = 16  # the largest size that counts as small


def choose_single_sizes(groups: Groups, wanted: Mapping[str, WantedSizes]) -> Iterator[Mapping[str, int]]:
    """Yield sizes of one symbol each. The symbols take turns, so that each has its first sizes early.

    `wanted` limits the sizes of the symbols that it names.
    """
    columns = [_sizes_of(symbol, groups, wanted.get(symbol)) for symbol in groups.symbols]
    for row in zip_longest(*columns):
        yield from (sizes for sizes in row if sizes is not None)


def choose_corners(groups: Groups, agreeing: Sequence[tuple[str, int]]) -> list[dict[str, int]]:
    """Return sizes of several symbols together: the ends of the sizes at which each symbol agreed alone.

    `agreeing` has each such size with its symbol. With fewer than two symbols there are none.
    """
    sizes_of: dict[str, list[int]] = {}
    for symbol, size in agreeing:
        sizes_of.setdefault(symbol, []).append(size)
    sizes_of = {symbol: _without_large(sizes, groups.example[symbol]) for symbol, sizes in sizes_of.items()}
    least = {symbol: min(sizes) for symbol, sizes in sizes_of.items()}
    most = {symbol: max(sizes) for symbol, sizes in sizes_of.items()}
    first = {symbol: sizes[0] for symbol, sizes in sizes_of.items()}
    if len(sizes_of) < 2:
        return []
    mixed = [{**base, symbol: other[symbol]} for base, other in ((least, most), (most, least)) for symbol in sizes_of]
    pairs = [{symbol: first[symbol] for symbol in pair} for pair in combinations(sizes_of, 2)]
    return [first, least, most, *mixed, *pairs][:_CORNERS_MAX]


def choose_small_sizes(groups: Groups, tested: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Return the small sizes of each symbol, with the example's sizes of the others, without those tested before."""
    steps = [
        (symbol, size)
        for size in range(1, _SMALL_MAX + 1)
        for symbol in groups.symbols
        if (size - groups.example[symbol]) % groups.step(symbol) == 0
    ]
    samples = [{**groups.example, symbol: size} for symbol, size in steps]
    known = [dict(sizes) for sizes in tested]
    return [sizes for sizes in samples if sizes not in known and sizes != groups.example]


def _sizes_of(symbol: str, groups: Groups, wanted: WantedSizes | None) -> list[Mapping[str, int]]:
    example, step = groups.example[symbol], groups.step(symbol)
    near, *others = _usual_sizes(example, step)
    usual = [near, *groups.between.get(symbol, []), *others, *_around_edges(groups.edges.get(symbol, []))]
    sizes = usual if wanted is None else _wanted_sizes(example, usual, wanted)
    return [{symbol: size} for size in dict.fromkeys(sizes) if size > 0 and size != example]


def _usual_sizes(example: int, step: int) -> list[int]:
    near = [example + step, example - step]
    if step == 1:
        return [*near, *_COMMON[:1], 2 * example + 1, *_COMMON[1:], example // 2, 2 * example]
    smallest = example % step or step
    half = example // 2 - (example // 2 - example) % step
    return [*near, smallest, 2 * example + step - example % step, example + 3 * step, half, smallest + step]


def _around_edges(edges: Sequence[int]) -> list[int]:
    """Return the sizes that the model compares a size with, and those beside: it may behave differently there."""
    return [edge + beside for edge in edges[:_EDGES_MAX] for beside in (0, 1, -1)]


def _wanted_sizes(example: int, usual: Sequence[int], wanted: WantedSizes) -> list[int]:
    """Return the ends of the wanted range, the sizes next to them, the middle, and the usual sizes that are in it."""
    last = wanted.high - (wanted.high - wanted.low) % wanted.step
    middle = wanted.low + (last - wanted.low) // 2 // wanted.step * wanted.step
    ends = [wanted.low, last, wanted.low + wanted.step, last - wanted.step, middle]
    near = [example + wanted.step, example - wanted.step, *usual]
    return [size for size in [*ends, *near] if wanted.low <= size <= last and (size - wanted.low) % wanted.step == 0]


def _without_large(sizes: Sequence[int], example: int) -> list[int]:
    """Leave out large sizes, because the sizes of several symbols multiply."""
    return [size for size in sizes if size <= max(_CORNER_SIZE, _CORNER_TIMES_EXAMPLE * example)] or [*sizes]
