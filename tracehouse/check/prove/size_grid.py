"""The size grid: every combination of the wanted sizes, in cells. A part of the grid is described by boxes.

Sizes of a symbol that no condition has told apart yet are one place along the symbol's axis. So a grid of many symbols
stays small, however many sizes each of them has.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracehouse.check.prove.mask_boxes import boxes_within
from tracehouse.contract.regions import REGIONS_MAX, SPANS_MAX, Basis, Region, Span

# Cells of a grid. A mask has a byte for each.
CELLS_MAX = 2 * 10**6
# Up to so many combinations of sizes, they are counted to the last one.
_COUNTED_MAX = 2**62
# How far away sizes count that are cases of their own: first comes what has none, and what is empty comes last.
_DISTANCE_OF_ONE, _DISTANCE_OF_ZERO = 3.0, 30.0
# Sizes of a batch count as near: the example's other sizes come at every batch before others do.
_WEIGHT_OF_BATCH = 0.01

Mask = npt.NDArray[np.bool_]  # one truth value for each cell, an axis for each symbol
Numbers = npt.NDArray[np.int64]
Sizes = dict[str, int]  # by symbol


class TooManyCells(Exception):
    """There would be more cells than may be. `places` has how many each symbol would have."""

    def __init__(self, places: Mapping[str, int]) -> None:
        super().__init__(f"too many cells: {places}")
        self.places = places


@dataclass(frozen=True)
class Plane:
    """Whether something holds at each combination of some symbols' sizes; sizes that are alike share a place.

    `places` has for each symbol the place of each size of its axis, and `holds` an axis for each symbol.
    """

    places: Mapping[str, Numbers]
    holds: Mask

    def merge_places(self) -> "Plane":
        """Return the same with one place for all sizes of a symbol that hold with the same sizes of the others."""
        holds, places = self.holds, dict(self.places)
        for axis, symbol in enumerate(places):
            slices = np.moveaxis(holds, axis, 0).reshape(holds.shape[axis], -1)
            first, place_of = _number_equal_rows(slices)
            holds, places[symbol] = holds.take(first, axis=axis), place_of[places[symbol]]
        return Plane(places, holds)


class Grid:
    """Every combination of the wanted sizes, called the points of the grid. It has one axis for each symbol."""

    def __init__(self, wanted: Mapping[str, npt.ArrayLike], cells: Sequence[Numbers] | None = None) -> None:
        """`cells` has for each axis the place of each size; without it, each axis has one place."""
        self.symbols = list(wanted)
        self.axes: list[Numbers] = [_sort_sizes(sizes) for sizes in wanted.values()]
        self._cells = [np.zeros(len(axis), dtype=np.int64) for axis in self.axes] if cells is None else cells
        self.shape = tuple(int(cells.max()) + 1 for cells in self._cells)
        self._firsts = [np.unique(cells, return_index=True)[1] for cells in self._cells]

    def empty_mask(self) -> Mask:
        """Return a mask of the grid's shape that has no cell."""
        return np.zeros(self.shape, dtype=bool)

    def full_mask(self) -> Mask:
        """Return a mask of the grid's shape that has every cell."""
        return np.ones(self.shape, dtype=bool)

    def sizes(self, symbol: str) -> Numbers:
        """Return all sizes of the symbol."""
        return self.axes[self.symbols.index(symbol)]

    def cells(self, symbol: str) -> Numbers:
        """Return the cell along the symbol's axis of each size of the symbol."""
        return self._cells[self.symbols.index(symbol)]

    def split(self, planes: Collection[Plane], most: int = CELLS_MAX) -> tuple["Grid", list[Numbers]]:
        """Return a grid in whose cells each plane holds everywhere or nowhere, and along each axis the old places.

        Raises TooManyCells if there would be over `most`.
        """
        cells = [
            _number_equal_columns([old, *(plane.places[symbol] for plane in planes if symbol in plane.places)])
            for symbol, old in zip(self.symbols, self._cells, strict=True)
        ]
        counts = [int(one.max()) + 1 for one in cells]
        if math.prod(counts) > most:
            raise TooManyCells(dict(zip(self.symbols, counts, strict=True)))
        grid = Grid(dict(zip(self.symbols, self.axes, strict=True)), cells)
        return grid, [old[firsts] for old, firsts in zip(self._cells, grid._firsts, strict=True)]

    def where(self, planes: Collection[Plane]) -> Mask:
        """Return the cells at which all planes hold. The grid was split by them."""
        mask = self.full_mask()
        for plane in planes:
            symbols = [symbol for symbol in self.symbols if symbol in plane.places]
            order = [[*plane.places].index(symbol) for symbol in symbols]
            places = [plane.places[symbol][self._firsts[self.symbols.index(symbol)]] for symbol in symbols]
            holds = plane.holds.transpose(order)[np.ix_(*places)] if symbols else plane.holds
            mask &= holds.reshape([n if s in symbols else 1 for s, n in zip(self.symbols, self.shape, strict=True)])
        return mask

    def cell_of(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """Return the cell that has these sizes; None where they are not on the grid."""
        cell = []
        for symbol, axis, cells in zip(self.symbols, self.axes, self._cells, strict=True):
            place = int(np.searchsorted(axis, sizes[symbol]))
            if place == len(axis) or axis[place] != sizes[symbol]:
                return None
            cell.append(int(cells[place]))
        return tuple(cell)

    def planes_at(self, sizes: Mapping[str, int]) -> list[Plane]:
        """Return planes that together hold at these sizes alone."""
        return [plane_of_sizes(symbol, self.sizes(symbol) == sizes[symbol]) for symbol in self.symbols]

    def count(self, mask: Mask) -> int:
        """Return the number of points in the mask's cells."""
        exact = math.prod(map(len, self.axes)) < _COUNTED_MAX
        counted = mask.astype(np.int64 if exact else np.float64)
        for cells in reversed(self._cells):
            counted = counted @ np.bincount(cells).astype(counted.dtype)
        return int(counted)

    def nearest(self, mask: Mask, to: Mapping[str, int], batches: Collection[str] = ()) -> Sizes:
        """Return the point in the mask's cells that is nearest to the given sizes, by the ratio of the sizes.

        A point with a size of 1 or 0 counts as far away, for these sizes may be cases of their own. The sizes of
        `batches` hardly count.
        """
        nearest = {}
        for symbol, axis, cells in zip(self.symbols, self.axes, self._cells, strict=True):
            order = np.lexsort((_distances(axis, to[symbol], is_batch=symbol in batches), cells))
            nearest[symbol] = axis[order[np.unique(cells[order], return_index=True)[1]]]
        return find_nearest(nearest, mask, to, batches)

    def corners(self, mask: Mask) -> list[tuple[Sizes, Sizes]]:
        """Return the smallest sizes of the mask's first cell and the largest of its last; nothing where it has none.

        Cells come in the order of their smallest sizes.
        """
        cells = np.argwhere(mask)
        if not len(cells):
            return []
        spans = [[axis[places == at] for at, places, axis in zip(cell, self._cells, self.axes, strict=True)]
                 for cell in cells[[0, -1]]]  # fmt: skip
        smallest, largest = (
            {symbol: int(sizes[end]) for symbol, sizes in zip(self.symbols, span, strict=True)}
            for span, end in zip(spans, (0, -1), strict=True)
        )
        return [(smallest, largest)]

    def regions(self, mask: Mask, basis: Basis) -> list[Region]:
        """Return boxes that lie within the mask, the weightiest first, and say on which basis their sizes are known.

        A size weighs the less the larger it is, so that a batch of one is not lost beside hundreds of large batches. If
        the mask needs more boxes than a contract may have, they may overlap, and leave out what weighs least.
        """
        weights = [
            np.bincount(cells, 1 / (axis + 1.0)).astype(np.float64)
            for cells, axis in zip(self._cells, self.axes, strict=True)
        ]
        regions = []
        for box in boxes_within(mask, weights, REGIONS_MAX):
            spans = {
                symbol: _spans(axis[np.isin(cells, places)])
                for symbol, axis, cells, places in zip(self.symbols, self.axes, self._cells, box, strict=True)
            }
            regions.append(Region(spans=spans, basis=basis))
        return regions


@dataclass(frozen=True)
class SizeSet:
    """Points of a grid."""

    grid: Grid
    mask: Mask

    def __contains__(self, sizes: Mapping[str, int]) -> bool:
        cell = self.grid.cell_of(sizes)
        return cell is not None and bool(self.mask[cell])


def find_nearest(
    sizes: Mapping[str, Numbers], mask: Mask, to: Mapping[str, int], batches: Collection[str] = ()
) -> Sizes:
    """Return the combination of sizes in the mask, which has an axis for each symbol, as `Grid.nearest` does."""
    total = np.zeros(mask.shape)
    for place, (symbol, axis) in enumerate(sizes.items()):
        distance = _distances(axis, to[symbol], is_batch=symbol in batches)
        total = total + distance.reshape([-1 if place == other else 1 for other in range(mask.ndim)])
    cell = np.unravel_index(int(np.argmin(np.where(mask, total, np.inf))), mask.shape)
    return {symbol: int(axis[at]) for (symbol, axis), at in zip(sizes.items(), cell, strict=True)}


def plane_of_sizes(symbol: str, holds: Mask) -> Plane:
    """Return the plane of one symbol, given whether it holds at each size of the symbol's axis."""
    return Plane({symbol: holds.astype(np.int64)}, np.asarray([False, True]))


def number_values(values: npt.NDArray[np.generic]) -> Numbers:
    """Return a number for each value, the same one for values that are the same to the last bit."""
    if values.dtype == object:
        numbers: dict[int, int] = {}
        return np.asarray([numbers.setdefault(int(value), len(numbers)) for value in values], dtype=np.int64)
    if np.issubdtype(values.dtype, np.floating):
        values = values.astype(np.float64).view(np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def _number_equal_columns(rows: Sequence[Numbers]) -> Numbers:
    """Return a number for each column: columns with the same values have one, in the order of their first places."""
    numbers = rows[0]
    for row in rows[1:]:
        numbers = number_values(numbers * (int(row.max()) + 1) + row)
    _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(firsts))
    return np.asarray(order[inverse])


def _number_equal_rows(rows: Mask) -> tuple[Numbers, Numbers]:
    """Return the first of each set of equal rows, and for each row the number of its set."""
    packed = np.ascontiguousarray(np.packbits(rows, axis=1))
    numbers: dict[bytes, int] = {}
    number_of = np.asarray([numbers.setdefault(row.tobytes(), len(numbers)) for row in packed], dtype=np.int64)
    return np.unique(number_of, return_index=True)[1], number_of


def _distances(sizes: Numbers, to: int, *, is_batch: bool) -> npt.NDArray[np.float64]:
    distance = np.abs(np.log((sizes + 1.0) / (to + 1.0))) + _DISTANCE_OF_ONE * ((sizes == 1) & (to != 1))
    total: npt.NDArray[np.float64] = (_WEIGHT_OF_BATCH if is_batch else 1.0) * distance + _DISTANCE_OF_ZERO * (
        sizes == 0
    )
    return total


def _sort_sizes(sizes: npt.ArrayLike) -> Numbers:
    return np.unique(np.asarray(sizes, dtype=np.int64))


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
