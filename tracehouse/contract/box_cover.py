"""Whether boxes of sizes cover a box, how much of it, and which sizes they leave out.

Sizes are ranges, which may have steps, and up to 2**48 long: nothing here counts them one by one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import lcm
from operator import and_

# A comparison of two usual contracts takes some hundred steps. So many take about half a second.
_STEPS_MAX = 1_000_000

# The sizes of a symbol: it may have a size that is in one of these.
Sizes = Sequence[range]


class TooManySizes(Exception):
    """The boxes have too many sizes to be compared."""


@dataclass(slots=True)
class Effort:
    """The steps that are left for a comparison."""

    left: int = _STEPS_MAX

    def spend(self, steps: int) -> None:
        """Raises TooManySizes if the steps are used up."""
        self.left -= steps
        if self.left < 0:
            raise TooManySizes


@dataclass(frozen=True, slots=True)
class Limits:
    """A box: each symbol must have a size in all of the symbol's `Sizes`. A symbol without any may have every size."""

    sizes: Mapping[str, Sequence[Sizes]]


@dataclass(frozen=True, slots=True)
class Gap:
    """Sizes of the box that are in no other box.

    `alone`: the sizes of a symbol that are in none, whatever the other symbols' sizes are. If there are no such,
    `together` are sizes of all symbols that are not in one box together.
    """

    alone: Mapping[str, Sizes]
    together: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Cell:
    """Sizes of one symbol that are in the same boxes: bit n of `boxes` stands for box n."""

    sizes: range
    boxes: int


def find_gap(box: Mapping[str, Sizes], cover: Sequence[Limits], effort: Effort) -> Gap | None:
    """Return sizes of the box that are in none of the boxes of the cover; None if there are none.

    Raises TooManySizes.
    """
    all_boxes = (1 << len(cover)) - 1
    cells = {symbol: [*_cells(symbol, sizes, cover, effort)] for symbol, sizes in box.items()}
    uncovered = {symbol: [cell.sizes for cell in inside if not cell.boxes] for symbol, inside in cells.items()}
    if any(uncovered.values()):
        return Gap({symbol: _merge(sizes) for symbol, sizes in uncovered.items() if sizes})
    least = [(symbol, _least_covered(inside, effort)) for symbol, inside in cells.items()]
    together = _find_uncovered(least, all_boxes, effort)
    return None if together is None else Gap({}, together)


def count_covered(box: Mapping[str, Sizes], cover: Sequence[Limits], effort: Effort) -> int:
    """Return how many combinations of sizes of the box are in a box of the cover. Raises TooManySizes.

    The ranges of a symbol have no size in common.
    """
    by_boxes = [_lengths(_cells(symbol, sizes, cover, effort)) for symbol, sizes in box.items()]
    counts = {(1 << len(cover)) - 1: 1}  # the combinations so far, by the boxes that they are still in
    for lengths in by_boxes:
        effort.spend(len(counts) * len(lengths))
        counts = _sum_by_key(
            (boxes & inside, count * length) for boxes, count in counts.items() for inside, length in lengths.items()
        )
    return sum(count for boxes, count in counts.items() if boxes)


def find_first_uncovered(box: Mapping[str, Sizes], cover: Sequence[Limits], effort: Effort) -> dict[str, int] | None:
    """Return the first sizes of the box that are in no box of the cover; None if there are none.

    Sizes are in the order of the first symbol's, then of the second one's, and so on. Raises TooManySizes.
    """
    all_boxes = (1 << len(cover)) - 1
    return _find_first([(symbol, _firsts(_cells(symbol, sizes, cover, effort))) for symbol, sizes in box.items()],
                       all_boxes, effort)  # fmt: skip


def _find_first(firsts: Sequence[tuple[str, Mapping[int, int]]], boxes: int, effort: Effort) -> dict[str, int] | None:
    if not boxes:
        return {symbol: min(sizes.values()) for symbol, sizes in firsts}
    if not firsts or reduce(and_, (inside for _, sizes in firsts for inside in sizes), boxes):
        return None
    (symbol, sizes), *others = firsts
    for inside, size in sorted(sizes.items(), key=lambda one: one[1]):
        effort.spend(1 + sum(len(each) for _, each in others))
        found = _find_first(others, boxes & inside, effort)
        if found is not None:
            return {symbol: size, **found}
    return None


def _lengths(cells: Iterable[_Cell]) -> dict[int, int]:
    """Return the number of sizes by the boxes that they are in."""
    return _sum_by_key((cell.boxes, len(cell.sizes)) for cell in cells)


def _firsts(cells: Iterable[_Cell]) -> dict[int, int]:
    """Return the smallest size by the boxes that it is in."""
    firsts: dict[int, int] = {}
    for cell in cells:
        firsts[cell.boxes] = min(firsts.get(cell.boxes, cell.sizes[0]), cell.sizes[0])
    return firsts


def _sum_by_key(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for key, number in pairs:
        sums[key] = sums.get(key, 0) + number
    return sums


def _cells(symbol: str, sizes: Sizes, cover: Sequence[Limits], effort: Effort) -> Iterator[_Cell]:
    """Split a symbol's sizes into cells."""
    choices = [limit.sizes.get(symbol, ()) for limit in cover]
    # Each range with the choice that it belongs to: which one of which box. The sizes themselves are no box's.
    ranges = [(one, (-1, 0)) for one in sizes]
    ranges += [
        (one, (number, place))
        for number, limit in enumerate(choices)
        for place, choice in enumerate(limit)
        for one in choice
        if one
    ]
    effort.spend(len(ranges))
    opening: dict[int, list[tuple[range, tuple[int, int]]]] = {}
    for one, owner in ranges:
        opening.setdefault(one[0], []).append((one, owner))
    active: list[tuple[range, tuple[int, int]]] = []
    for start, end in pairwise(sorted({*opening, *(one[-1] + 1 for one, _ in ranges)})):
        active = [(one, owner) for one, owner in active if start <= one[-1]] + opening.get(start, [])
        # Between two ends of ranges, whether a size is in a range depends only on its place in the ranges' steps.
        period = lcm(*(one.step for one, _ in active))
        places = range(start, min(end, start + period))
        effort.spend(len(places) * (1 + len(active) + len(cover)))
        for place in places:
            chosen = {owner for one, owner in active if place in one}
            if (-1, 0) in chosen:
                inside = (
                    1 << number
                    for number, limit in enumerate(choices)
                    if all((number, choice) in chosen for choice in range(len(limit)))
                )
                yield _Cell(range(place, end, period), sum(inside))


def _find_uncovered(cells: Sequence[tuple[str, Sequence[_Cell]]], boxes: int, effort: Effort) -> dict[str, int] | None:
    """Return a size of each symbol that are not all in one of `boxes`."""
    if not boxes:
        return {symbol: inside[0].sizes[0] for symbol, inside in cells}
    if not cells or reduce(and_, (cell.boxes for _, inside in cells for cell in inside), boxes):
        return None
    (symbol, inside), *others = cells
    for cell in inside:
        effort.spend(1 + sum(len(each) for _, each in others))
        found = _find_uncovered(others, boxes & cell.boxes, effort)
        if found is not None:
            return {symbol: cell.sizes[0], **found}
    return None


def _least_covered(cells: Iterable[_Cell], effort: Effort) -> list[_Cell]:
    """Leave out a cell if another one is in no other boxes than it: what covers that one covers this one too."""
    least: list[_Cell] = []
    for cell in sorted(cells, key=lambda cell: cell.boxes.bit_count()):
        effort.spend(len(least))
        if all(other.boxes & ~cell.boxes for other in least):
            least.append(cell)
    return least


def _merge(sizes: Sizes) -> list[range]:
    """Merge ranges that follow one another in one step."""
    merged: list[range] = []
    for one in sorted(sizes, key=lambda one: one[0]):
        joined = _join(merged[-1], one) if merged else None
        if joined is None:
            merged.append(one)
        else:
            merged[-1] = joined
    return merged


def _join(first: range, second: range) -> range | None:
    """Return one range with the sizes of both; None if the step between them is not theirs."""
    steps = {one.step for one in (first, second) if len(one) > 1} or {1}
    step = min(steps)
    if len(steps) > 1 or second[0] != first[-1] + step:
        return None
    return range(first[0], second[-1] + 1, step)
