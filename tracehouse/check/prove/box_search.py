"""The box search: boxes of sizes in which conditions hold everywhere or nowhere, for more sizes than can be evaluated.

A box in which bounds do not decide is halved, down to a single combination of sizes, in which they do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy

from tracehouse.check.prove.condition_bounds import Bounds, decide
from tracehouse.check.prove.evaluation import Values
from tracehouse.check.prove.size_grid import TooManyCells

_BOXES_MAX = 2**10


@dataclass(frozen=True)
class DecidedBox:
    """A range of places for each symbol, and whether the conditions hold there."""

    ranges: tuple[range, ...]
    holds: bool


class BoxSearch:
    """Divides all combinations of places into boxes in which conditions are decided."""

    def __init__(
        self, conditions: Sequence[sympy.Basic], operand_values: Mapping[sympy.Basic, tuple[int, Values]]
    ) -> None:
        """`operand_values` has for each operand its symbol's number, and its value at each place of the symbol."""
        self._condition = sympy.And(*conditions, evaluate=False)
        self._operand_values = operand_values
        counts = {number: len(values) for number, values in operand_values.values()}
        self._all = tuple(range(counts[number]) for number in sorted(counts))

    def boxes(self) -> list[DecidedBox]:
        """Return the boxes. Raises TooManyCells if there are too many of them, or bounds do not decide one of them."""
        boxes: list[DecidedBox] = []
        left = [self._all]
        while left:
            ranges = left.pop()
            holds = decide(self._condition, partial(self._bounds_of, ranges))
            if holds is not None:
                boxes.append(DecidedBox(ranges, holds))
                continue
            if len(boxes) + len(left) > _BOXES_MAX or max(map(len, ranges)) == 1:
                raise TooManyCells({})
            axis = self._axis_to_halve(ranges)
            middle = len(ranges[axis]) // 2
            left += [
                (*ranges[:axis], half, *ranges[axis + 1 :]) for half in (ranges[axis][:middle], ranges[axis][middle:])
            ]
        return boxes

    def _axis_to_halve(self, ranges: Sequence[range]) -> int:
        """Return the axis along which an operand grows most, for there the bounds are the farthest apart."""
        growth = dict.fromkeys((axis for axis, range_ in enumerate(ranges) if len(range_) > 1), 0.0)
        for operand, (axis, _) in self._operand_values.items():
            bounds = self._bounds_of(ranges, operand)
            if bounds is not None and axis in growth:
                grows = (bounds[1] + 1) / (bounds[0] + 1) if bounds[0] >= 0 else np.inf
                growth[axis] = max(growth[axis], grows)
        return max(growth, key=lambda axis: (growth[axis], len(ranges[axis])))

    def _bounds_of(self, ranges: Sequence[range], operand: sympy.Basic) -> Bounds | None:
        known = self._operand_values.get(operand)
        if known is None or np.issubdtype(known[1].dtype, np.floating):
            return None
        values = known[1][ranges[known[0]].start : ranges[known[0]].stop]
        return int(values.min()), int(values.max())
