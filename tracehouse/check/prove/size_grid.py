"""The size grid: every combination of the wanted sizes. A part of the grid is described by boxes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracehouse.check.size_groups import Groups
from tracehouse.contract.regions import REGIONS_MAX, SPANS_MAX, Basis, Region, Span

# The largest sizes that are wanted where a request names none: of a batch; of a length, unless so many times the
# example's size is more.
BATCH_MAX = 256
LENGTH_MAX = 1024
TIMES_EXAMPLE = 4
# Combinations of sizes. A mask has a byte for each.
POINTS_MAX = 2 * 10**6

Mask = npt.NDArray[np.bool_]  # one truth value for each combination of sizes, an axis for each symbol
Sizes = dict[str, int]  # by symbol


def default_sizes(groups: Groups) -> dict[str, range]:
    """Return the sizes that are wanted of each symbol where a request names none.

    They begin at 1 and include the example's. If many symbols have too many combinations, there are fewer sizes of
    each: the large lengths go first, then the small ones, and the large batches last.
    """
    example = groups.example
    lengths = [symbol for symbol in example if not _is_batch(symbol, groups)]
    lowest = dict.fromkeys(example, 1)
    highest = {
        symbol: max(size, max(LENGTH_MAX, TIMES_EXAMPLE * size) if symbol in lengths else BATCH_MAX)
        for symbol, size in example.items()
    }
    while math.prod(highest[symbol] - lowest[symbol] + 1 for symbol in example) > POINTS_MAX:
        longer = [symbol for symbol in lengths if highest[symbol] > example[symbol]]
        shorter = [symbol for symbol in lengths if lowest[symbol] < example[symbol] // TIMES_EXAMPLE]
        if longer:
            _halve_largest(highest, longer, example)
        elif shorter:
            lowest[shorter[0]] = example[shorter[0]] // TIMES_EXAMPLE
        elif more := [symbol for symbol in example if highest[symbol] > example[symbol]]:
            _halve_largest(highest, more, example)
        else:
            break
    return {
        symbol: _reachable_sizes(size, lowest[symbol], highest[symbol], groups.step(symbol))
        for symbol, size in example.items()
    }


def limit_sizes(wanted: Mapping[str, range], example: Mapping[str, int]) -> dict[str, range]:
    """Return the wanted sizes, halved about the example's as long as there are too many combinations.

    The longest range is halved first.
    """
    limited = dict(wanted)
    while math.prod(len(sizes) for sizes in limited.values()) > POINTS_MAX:
        longest = max(limited, key=lambda symbol: len(limited[symbol]))
        limited[longest] = _nearer_half(limited[longest], example[longest])
    return limited


def _nearer_half(sizes: range, example: int) -> range:
    """Return half of the sizes, those about the example's."""
    length = len(sizes) // 2
    place = (min(max(example, sizes.start), sizes[-1]) - sizes.start) // sizes.step
    first = min(max(0, place - length // 2), len(sizes) - length)
    return sizes[first : first + length]


def _halve_largest(highest: dict[str, int], symbols: Sequence[str], example: Mapping[str, int]) -> None:
    largest = max(symbols, key=lambda symbol: highest[symbol])
    highest[largest] = max(example[largest], highest[largest] // 2)


def _reachable_sizes(example: int, lowest: int, highest: int, step: int) -> range:
    """Return the sizes between both that are a number of steps away from the example's."""
    lowest = min(lowest, example)
    return range(lowest + (example - lowest) % step, highest + 1, step)


def _is_batch(symbol: str, groups: Groups) -> bool:
    """Whether the symbol is a size of first dims alone."""
    places = [place for shape in groups.shapes.values() for place, dim in enumerate(shape) if symbol in str(dim)]
    return bool(places) and not any(places)


Box = tuple[tuple[int, ...], ...]  # the places along each axis whose combinations it has


class Grid:
    """Every combination of the wanted sizes, called the points of the grid. It has one axis for each symbol."""

    def __init__(self, wanted: Mapping[str, Sequence[int]]) -> None:
        self.symbols = list(wanted)
        self.axes = [np.unique(np.asarray(list(sizes), dtype=np.int64)) for sizes in wanted.values()]
        self.shape = tuple(len(axis) for axis in self.axes)

    def empty_mask(self) -> Mask:
        """Return a mask of the grid's shape that has no point."""
        return np.zeros(self.shape, dtype=bool)

    def full_mask(self) -> Mask:
        """Return a mask of the grid's shape that has every point."""
        return np.ones(self.shape, dtype=bool)

    def sizes(self, symbol: str) -> npt.NDArray[np.int64]:
        """Return the symbol's sizes along its own axis: every other axis has length 1, so that the arrays broadcast."""
        place = self.symbols.index(symbol)
        shape = [1] * len(self.axes)
        shape[place] = -1
        return self.axes[place].reshape(shape)

    def sizes_at(self, place: Sequence[int]) -> Sizes:
        """Return the sizes of the point at this place."""
        return {symbol: int(axis[at]) for symbol, axis, at in zip(self.symbols, self.axes, place, strict=True)}

    def single_point(self, sizes: Mapping[str, int]) -> Mask:
        """Return a mask with the one point of these sizes; it has none where they are not on the grid."""
        mask = self.full_mask()
        for symbol, size in sizes.items():
            mask &= self.sizes(symbol) == size
        return mask

    def nearest(self, mask: Mask, to: Mapping[str, int]) -> Sizes:
        """Return the point of the mask that is nearest to the given sizes, by the ratio of the sizes.

        A point with a size of 1 or 0 counts as far away, for these sizes are cases of their own.
        """
        distance = np.zeros(self.shape)
        for symbol in self.symbols:
            sizes = self.sizes(symbol)
            distance = distance + np.abs(np.log((sizes + 1.0) / (to[symbol] + 1.0))) + 3.0 * (sizes < 2)
        place = np.unravel_index(int(np.argmin(np.where(mask, distance, np.inf))), self.shape)
        return self.sizes_at([int(at) for at in place])

    def corners(self, mask: Mask) -> list[Sizes]:
        """Return the first and the last point of the mask; nothing where it has none."""
        places = np.argwhere(mask)
        return [self.sizes_at(place.tolist()) for place in places[[0, -1]]] if len(places) else []

    def regions(self, mask: Mask, basis: Basis) -> list[Region]:
        """Return boxes that lie within the mask, the largest first, and say on which basis the sizes in them are known.

        If the mask needs more boxes than a contract may have, the smallest are left out.
        """
        if not mask.any():
            return []
        boxes = sorted(_boxes(mask), key=lambda box: -math.prod(map(len, box)))
        regions = []
        for box in boxes[:REGIONS_MAX]:
            spans = {
                symbol: _spans(axis[list(places)])
                for symbol, axis, places in zip(self.symbols, self.axes, box, strict=True)
            }
            regions.append(Region(spans=spans, basis=basis))
        return regions


@dataclass(frozen=True)
class SizeSet:
    """Points of a grid."""

    grid: Grid
    mask: Mask

    def __contains__(self, sizes: Mapping[str, int]) -> bool:
        return bool((self.grid.single_point(sizes) & self.mask).any())


def _boxes(mask: Mask) -> Iterator[Box]:
    """Yield boxes that have no point in common and together have all points of the mask."""
    if mask.ndim == 0:
        yield ()
        return
    used = [np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
            for axis in range(mask.ndim)]  # fmt: skip
    if mask[np.ix_(*used)].all():
        yield tuple(tuple(places.tolist()) for places in used)
        return
    # Equal slices along an axis share their boxes. The axis with the fewest different slices needs the fewest boxes.
    equal_slices = [_equal_slices(mask, axis) for axis in range(mask.ndim)]
    axis = min(range(mask.ndim), key=lambda axis: len(equal_slices[axis]))
    for places in equal_slices[axis]:
        for box in _boxes(np.asarray(mask.take(places[0], axis=axis))):
            yield (*box[:axis], tuple(places), *box[axis:])


def _equal_slices(mask: Mask, axis: int) -> list[list[int]]:
    """Return the places along the axis, those with equal slices together; empty slices are left out."""
    places_by_slice: dict[bytes, list[int]] = {}
    for place in range(mask.shape[axis]):
        part = mask.take(place, axis=axis)
        if part.any():
            places_by_slice.setdefault(part.tobytes(), []).append(place)
    return [*places_by_slice.values()]


def _spans(sizes: npt.NDArray[np.int64]) -> list[Span]:
    """Return spans that have these sizes, which are sorted; if there are too many, the longest spans."""
    spans: list[tuple[int, int, int]] = []
    rest = sizes.tolist()
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        count = 1
        while count < len(rest) and rest[count] - rest[count - 1] == step:
            count += 1
        # Two sizes that are no neighbours are no span yet: the second may begin one.
        if count == 2 and step > 1:
            count = 1
        spans.append((rest[0], rest[count - 1], step if count > 1 else 1))
        rest = rest[count:]
    longest = sorted(spans, key=lambda span: span[0] - span[1])[:SPANS_MAX]
    return [Span(low=low, high=high, step=step) for low, high, step in sorted(longest)]
