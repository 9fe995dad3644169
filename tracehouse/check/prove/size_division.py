"""The division of a size grid: each of its points is left, or in the part that a case has put it in."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from tracehouse.check.prove.size_grid import Grid, Mask, Numbers, SizeSet

Part = Literal["left", "proven", "proven-on-symbols", "sampled", "refused", "failed"]
_NUMBERS: Mapping[Part, int] = {part: number for number, part in enumerate(get_args(Part))}


class SizeDivision:
    """The points of a grid in parts. Points at which values decide are noted beside."""

    def __init__(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """All points of the `wanted` sizes are left."""
        self.grid = Grid(wanted)
        self._parts = np.zeros(self.grid.shape, dtype=np.int8)
        self._decided = self.grid.empty_mask()
        self.owners: Numbers = np.full(self.grid.shape, -1, dtype=np.int64)  # the number of the case that was put there

    def split(self, grid: Grid, old_places: Sequence[Numbers]) -> None:
        """Take this grid in place of the present one, given along each axis the present places."""
        self.grid = grid
        self._parts = self._parts[np.ix_(*old_places)]
        self._decided = self._decided[np.ix_(*old_places)]
        self.owners = self.owners[np.ix_(*old_places)]

    def mask(self, *parts: Part) -> Mask:
        """Return the cells of these parts."""
        return np.isin(self._parts, [_NUMBERS[part] for part in parts])

    def put(self, cells: Mask, part: Part, owner: int = -1) -> None:
        """Put these cells into the part. `owner` is the number of the case that did it."""
        self._parts[cells] = _NUMBERS[part]
        self.owners[cells] = owner

    def note_decided(self, cells: Mask) -> None:
        """Note that values decide at these cells."""
        self._decided |= cells

    @property
    def decided(self) -> SizeSet:
        """The points at which values decide."""
        return SizeSet(self.grid, self._decided)

    def count(self, part: Part) -> int:
        """Return the number of points in the part."""
        return self.grid.count(self.mask(part))
