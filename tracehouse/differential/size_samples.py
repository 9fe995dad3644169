"""Size samples: the sizes of a region that are worth a call: its corners, the ends of its spans, and random ones.

Sizes are numbers of elements. A point is one combination of sizes: one for each symbol.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import numpy as np

from tracehouse.byte_units import MIB
from tracehouse.contract.regions import SPANS_MAX, Region, Span

Sizes = Mapping[str, int]

# With up to this many symbols, each combination of smallest and largest sizes may be a corner (8 for three symbols).
# Else the corners are all smallest, all largest, and each symbol's largest with the smallest of the others.
_CORNERS_OF = 3
# How many of the smallest and of the largest ends of a symbol's spans are taken. Chosen.
_ENDS = 6
# Inputs of another size have at most this many bytes, or this many times the example's. Chosen.
_INPUT_BYTES, _INPUT_TIMES_EXAMPLE = MIB, 8
# Where smaller sizes stand for the example's, they are not below these: calls of several rows together, and calls whose
# values and layouts are varied. Chosen: rows stay apart at any size; a network that halves images five times should
# have several pixels left where their layout may be read.
STAND_IN_ROWS, STAND_IN_PROBES = 8, 96
# How many points are chosen to stand for all. Chosen: each is called several times.
_TELLING_POINTS_MAX = 3


def most_input_bytes(example_bytes: int) -> int:
    """Return how many bytes the inputs of one call may have, where the example's inputs have so many."""
    return max(_INPUT_BYTES, _INPUT_TIMES_EXAMPLE * example_bytes)


def corner_sizes(region: Region, *, every: bool = True) -> list[dict[str, int]]:
    """Return the combinations of the symbols' smallest and largest sizes: `every` one, or those that tell most."""
    ends = {symbol: _ends(spans) for symbol, spans in region.spans.items()}
    if every and len(ends) <= _CORNERS_OF:
        return drop_duplicates(dict(zip(ends, sizes, strict=True)) for sizes in product(*ends.values()))
    lowest = {symbol: low for symbol, (low, _) in ends.items()}
    highest = {symbol: high for symbol, (_, high) in ends.items()}
    alone = [{**lowest, symbol: high} for symbol, high in highest.items()]
    return drop_duplicates([lowest, *alone, highest])


def border_sizes(region: Region, example: Sizes) -> list[dict[str, int]]:
    """Return the ends of each symbol's spans, with the other symbols at or nearest to the example's sizes."""
    middle = {symbol: nearest_size(spans, example[symbol]) for symbol, spans in region.spans.items()}
    moved = ({**middle, symbol: end} for symbol, spans in region.spans.items() for end in _all_ends(spans))
    return drop_duplicates([middle, *moved])


def beyond_sizes(region: Region, example: Sizes, rng: np.random.Generator) -> list[dict[str, int]]:
    """Return for each symbol whose sizes go on the first size beyond its spans, and a random one up to twice as large.

    The other symbols have sizes at or nearest to the example's.
    """
    middle = {symbol: nearest_size(spans, example[symbol]) for symbol, spans in region.spans.items()}
    found = []
    for symbol, end in region.beyond.items():
        last = region.spans[symbol][-1]
        further = Span(low=last.high + last.step, high=min(end, 2 * last.high + last.step), step=last.step)
        found += [{**middle, symbol: size} for size in (further.low, _draw([further], rng))]
    return drop_duplicates(found)


def stand_in_sizes(regions: Iterable[Region], example: Sizes, least: int) -> Sizes:
    """Return smaller sizes that lie in one region with the example's: calls cost less there. Else the example's.

    A size that becomes smaller is not below `least`.
    """
    for region in regions:
        if region.contains(example):
            return {symbol: _smallest(region.spans[symbol], size, least) for symbol, size in example.items()}
    return example


def _smallest(spans: Sequence[Span], size: int, least: int) -> int:
    """Return the smallest size of the spans that may stand in for this one, which is in them."""
    firsts = [span.low + max(0, -(-(least - span.low) // span.step)) * span.step for span in spans]
    return min([first for first, span in zip(firsts, spans, strict=True) if first in span and first < size] or [size])


def draw_sizes(region: Region, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Yield random points of the region without end. Sizes are log-uniform: 1 to 8 comes as often as 8 to 64."""
    while True:
        yield {symbol: _draw(spans, rng) for symbol, spans in region.spans.items()}


def list_sizes(region: Region, most: int) -> list[dict[str, int]]:
    """Return the region's points in ascending order of volume, at most `most` of them."""
    sizes = {symbol: smallest_sizes(spans, most) for symbol, spans in region.spans.items()}
    combined = (dict(zip(sizes, one, strict=True)) for one in islice(product(*sizes.values()), most * most))
    return sort_sizes(combined)[:most]


def sort_sizes(points: Iterable[Sizes]) -> list[dict[str, int]]:
    """Return the points in ascending order of their volume, the product of their sizes (each plus 1, because of 0)."""
    return sorted((dict(point) for point in points), key=lambda point: (_volume(point), sorted(point.items())))


def drop_duplicates(points: Iterable[Sizes]) -> list[dict[str, int]]:
    """Return each point once, in their order."""
    return list({tuple(sorted(point.items())): dict(point) for point in points}.values())


def choose_telling_points(points: Iterable[Sizes]) -> list[dict[str, int]]:
    """Return a few of the points: the largest, and such that each symbol has a size that is no power of two.

    A number that is computed from a power of two, such as `1 / n` or `n ** -0.5`, is often exact where others are not.
    """
    ordered = sort_sizes(drop_duplicates(points))
    chosen = ordered[-1:]
    missing = {symbol for point in chosen for symbol in point} - _uneven_symbols(chosen)
    while missing and len(chosen) < _TELLING_POINTS_MAX:
        best = max(ordered, key=lambda point: len(missing & _uneven_symbols([point])))
        if not missing & _uneven_symbols([best]):
            break
        chosen.append(best)
        missing -= _uneven_symbols([best])
    return chosen


def nearest_size(spans: Iterable[Span], size: int) -> int:
    """Return the size in these spans that is nearest to `size`; of two, the smaller."""
    found = (_nearest(span, size) for span in spans)
    return min(found, key=lambda one: (abs(one - size), one))


def shrink_sizes(point: Sizes, region: Region) -> dict[str, int] | None:
    """Return the point with its largest possible size halved, or made smaller still; None if the region allows none.

    A size beyond the region's spans is made smaller only if no other one can be.
    """
    most = {symbol: max(span.high for span in spans) for symbol, spans in region.spans.items()}
    for symbol, size in sorted(point.items(), key=lambda one: (one[1] > most[one[0]], -one[1])):
        smaller = [_below(span, size // 2) for span in region.spans[symbol] if span.low <= size // 2 < size]
        if smaller:
            return {**point, symbol: max(smaller)}
    return None


def find_spans(sizes: Iterable[int]) -> list[Span]:
    """Return the sizes as spans of equal steps."""
    left = sorted(set(sizes))
    spans: list[Span] = []
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        length = next((place for place in range(1, len(left)) if left[place] != left[0] + place * step), len(left))
        length = length if length > 2 or step == 1 else 1  # two sizes are no span
        spans.append(Span(low=left[0], high=left[length - 1], step=step if length > 1 else 1))
        left = left[length:]
    return spans


def smallest_sizes(spans: Iterable[Span], most: int) -> list[int]:
    """Return the smallest sizes in the spans, at most `most` of them."""
    found: dict[int, None] = {}
    for size in _sizes(spans):
        found[size] = None
        if len(found) == most:
            break
    return list(found)


def join_into_boxes(points: Sequence[Sizes]) -> list[dict[str, list[int]]]:
    """Return boxes that contain exactly these points. A box has a list of sizes for each symbol."""
    found: list[dict[str, list[int]]] = [{symbol: [size] for symbol, size in point.items()} for point in points]
    for symbol in points[0] if points else ():
        found = _join(found, symbol)
    return found


def tested_regions(sizes: Sequence[Sizes]) -> list[Region]:
    """Return regions of exactly these points, with the basis `tested`.

    If a symbol's sizes need more than `SPANS_MAX` spans, only the first spans are kept.
    """
    return [
        Region(spans={symbol: find_spans(found)[:SPANS_MAX] for symbol, found in box.items()}, basis="tested")
        for box in join_into_boxes(sort_sizes(sizes))
    ]


def _uneven_symbols(points: Iterable[Sizes]) -> set[str]:
    """Return the symbols that have a size that is no power of two."""
    return {symbol for point in points for symbol, size in point.items() if size & (size - 1)}


def _join(found: Sequence[dict[str, list[int]]], symbol: str) -> list[dict[str, list[int]]]:
    """Join the boxes that differ in this symbol alone."""
    by_others: dict[str, dict[str, list[int]]] = {}
    for box in found:
        others = repr([(name, sizes) for name, sizes in box.items() if name != symbol])
        if others in by_others:
            by_others[others][symbol] = sorted({*by_others[others][symbol], *box[symbol]})
        else:
            by_others[others] = dict(box)
    return list(by_others.values())


def _ends(spans: Sequence[Span]) -> tuple[int, int]:
    return min(span.low for span in spans), max(_last(span) for span in spans)


def _all_ends(spans: Iterable[Span]) -> list[int]:
    ends = sorted({end for span in spans for end in (span.low, _last(span))})
    return ends if len(ends) <= 2 * _ENDS else [*ends[:_ENDS], *ends[-_ENDS:]]


def _last(span: Span) -> int:
    return span.high - (span.high - span.low) % span.step


def _below(span: Span, size: int) -> int:
    most = min(size, span.high)
    return most - (most - span.low) % span.step


def _nearest(span: Span, size: int) -> int:
    if size <= span.low:
        return span.low
    below = _below(span, size)
    above = below + span.step
    return above if above <= span.high and above - size < size - below else below


def _draw(spans: Sequence[Span], rng: np.random.Generator) -> int:
    low, high = _ends(spans)
    wanted = int(np.exp(rng.uniform(np.log(low + 1), np.log(high + 2)))) - 1
    return nearest_size(spans, min(max(wanted, low), high))


def _sizes(spans: Iterable[Span]) -> Iterator[int]:
    for span in sorted(spans, key=lambda one: one.low):
        yield from range(span.low, span.high + 1, span.step)


def _volume(point: Sizes) -> int:
    volume = 1
    for size in point.values():
        volume *= size + 1
    return volume
