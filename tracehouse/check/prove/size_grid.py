"""The domain: the wanted sizes as a grid, conditions evaluated at each point, and boxes that cover a part of it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy

from tracehouse.check.size_groups import Groups
from tracehouse.contract.regions import REGIONS_MAX, SPANS_MAX, Basis, Region, Span

BATCH_MAX = 256
LENGTH_MAX = 1024
TIMES_EXAMPLE = 4
POINTS_MAX = 2 * 10**6

Mask = npt.NDArray[np.bool_]
Sizes = dict[str, int]


class NotEvaluated(Exception):
    """A condition has a function in it that is not known here."""


def default(groups: Groups) -> dict[str, range]:
    """From 1 on, the example's sizes included, and fewer of each where many symbols would make too many points: lengths
    near the example's are wanted first, batches of all sizes last to be given up."""
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
            _halve(highest, longer, example)
        elif shorter:
            lowest[shorter[0]] = example[shorter[0]] // TIMES_EXAMPLE
        elif more := [symbol for symbol in example if highest[symbol] > example[symbol]]:
            _halve(highest, more, example)
        else:
            break
    return {
        symbol: _sizes(size, lowest[symbol], highest[symbol], groups.step(symbol)) for symbol, size in example.items()
    }


def bounded(wanted: Mapping[str, range], example: Mapping[str, int]) -> dict[str, range]:
    """Of too many points, those about the example's sizes: the longest range gives way first."""
    left = dict(wanted)
    while math.prod(len(sizes) for sizes in left.values()) > POINTS_MAX:
        longest = max(left, key=lambda symbol: len(left[symbol]))
        left[longest] = _nearer(left[longest], example[longest])
    return left


def _nearer(sizes: range, example: int) -> range:
    """Half of them, with the example's own where it is among them."""
    length = len(sizes) // 2
    place = (min(max(example, sizes.start), sizes[-1]) - sizes.start) // sizes.step
    first = min(max(0, place - length // 2), len(sizes) - length)
    return sizes[first : first + length]


def _halve(highest: dict[str, int], symbols: Sequence[str], example: Mapping[str, int]) -> None:
    """The largest of these."""
    largest = max(symbols, key=lambda symbol: highest[symbol])
    highest[largest] = max(example[largest], highest[largest] // 2)


def _sizes(example: int, lowest: int, highest: int, step: int) -> range:
    """Those that a number of steps leads to from the example's."""
    lowest = min(lowest, example)
    return range(lowest + (example - lowest) % step, highest + 1, step)


def _is_batch(symbol: str, groups: Groups) -> bool:
    """Whether it is the first dim wherever it occurs."""
    places = [place for shape in groups.shapes.values() for place, dim in enumerate(shape) if symbol in str(dim)]
    return bool(places) and not any(places)


Box = tuple[tuple[int, ...], ...]  # the places taken along each axis


class Grid:
    """Every combination of the wanted sizes."""

    def __init__(self, wanted: Mapping[str, Sequence[int]]) -> None:
        self.symbols = list(wanted)
        self.axes = [np.unique(np.asarray(list(sizes), dtype=np.int64)) for sizes in wanted.values()]
        self.shape = tuple(len(axis) for axis in self.axes)

    def none(self) -> Mask:
        return np.zeros(self.shape, dtype=bool)

    def all(self) -> Mask:
        return np.ones(self.shape, dtype=bool)

    def sizes(self, symbol: str) -> npt.NDArray[np.int64]:
        """Along its own axis, to be broadcast with the others."""
        place = self.symbols.index(symbol)
        shape = [1] * len(self.axes)
        shape[place] = -1
        return self.axes[place].reshape(shape)

    def at(self, place: Sequence[int]) -> Sizes:
        return {symbol: int(axis[at]) for symbol, axis, at in zip(self.symbols, self.axes, place, strict=True)}

    def only(self, sizes: Mapping[str, int]) -> Mask:
        """The one point, where it lies on the grid."""
        mask = self.all()
        for symbol, size in sizes.items():
            mask &= self.sizes(symbol) == size
        return mask

    def nearest(self, mask: Mask, to: Mapping[str, int]) -> Sizes:
        """Of the points in the mask; a size of 1 or 0 is far off, for it is a case of its own."""
        distance = np.zeros(self.shape)
        for symbol in self.symbols:
            sizes = self.sizes(symbol)
            distance = distance + np.abs(np.log((sizes + 1.0) / (to[symbol] + 1.0))) + 3.0 * (sizes < 2)
        place = np.unravel_index(int(np.argmin(np.where(mask, distance, np.inf))), self.shape)
        return self.at([int(at) for at in place])

    def corners(self, mask: Mask) -> list[Sizes]:
        """The first and the last of its points."""
        places = np.argwhere(mask)
        return [self.at(place.tolist()) for place in places[[0, -1]]] if len(places) else []

    def regions(self, mask: Mask, known: Basis) -> list[Region]:
        """Boxes within the mask, the largest first; what would need more of them than allowed is left out."""
        if not mask.any():
            return []
        boxes = sorted(_boxes(mask), key=lambda box: -math.prod(map(len, box)))
        found = []
        for box in boxes[:REGIONS_MAX]:
            spans = {
                symbol: _spans(axis[list(places)])
                for symbol, axis, places in zip(self.symbols, self.axes, box, strict=True)
            }
            found.append(Region(spans=spans, basis=known))
        return found


def _boxes(mask: Mask) -> Iterator[Box]:
    if mask.ndim == 0:
        yield ()
        return
    taken = [np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
             for axis in range(mask.ndim)]  # fmt: skip
    if mask[np.ix_(*taken)].all():
        yield tuple(tuple(places.tolist()) for places in taken)
        return
    # Of slices along one axis, those that are alike share their boxes: along the axis that has the fewest kinds.
    kinds = [_kinds(mask, axis) for axis in range(mask.ndim)]
    axis = min(range(mask.ndim), key=lambda axis: len(kinds[axis]))
    for places in kinds[axis]:
        for box in _boxes(np.asarray(mask.take(places[0], axis=axis))):
            yield (*box[:axis], tuple(places), *box[axis:])


def _kinds(mask: Mask, axis: int) -> list[list[int]]:
    """The places along the axis whose slices are alike, together; empty slices left out."""
    found: dict[bytes, list[int]] = {}
    for place in range(mask.shape[axis]):
        part = mask.take(place, axis=axis)
        if part.any():
            found.setdefault(part.tobytes(), []).append(place)
    return [*found.values()]


def _spans(sizes: npt.NDArray[np.int64]) -> list[Span]:
    """Of too many, the longest."""
    spans: list[tuple[int, int, int]] = []
    rest = sizes.tolist()
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        count = 1
        while count < len(rest) and rest[count] - rest[count - 1] == step:
            count += 1
        # Two that are apart are no row: the second may begin one.
        if count == 2 and step > 1:
            count = 1
        spans.append((rest[0], rest[count - 1], step if count > 1 else 1))
        rest = rest[count:]
    kept = sorted(spans, key=lambda span: span[0] - span[1])[:SPANS_MAX]
    return [Span(low=low, high=high, step=step) for low, high, step in sorted(kept)]


class Evaluation:
    """Expressions in symbols, evaluated at each point of the grid at once; parts that they share once only."""

    def __init__(self, grid: Grid, names: Mapping[sympy.Symbol, str]) -> None:
        self._grid = grid
        self._names = names
        self._known: dict[sympy.Basic, Any] = {}

    def holds(self, condition: sympy.Basic) -> Mask:
        """Raises NotEvaluated."""
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(self._of(condition), dtype=bool), self._grid.shape)

    def alike(self, first: sympy.Basic, second: sympy.Basic) -> Mask:
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(self._of(first) == self._of(second), dtype=bool), self._grid.shape)

    def _of(self, expression: sympy.Basic) -> Any:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._evaluated(expression)
        return known

    def _evaluated(self, expression: sympy.Basic) -> Any:
        if expression.is_Symbol:
            if expression not in self._names:
                raise NotEvaluated(str(expression))
            return self._grid.sizes(self._names[expression])
        if expression is sympy.true or expression is sympy.false:
            return np.asarray(expression is sympy.true)
        if expression.is_Integer:
            value = int(expression)
            return np.asarray(value if abs(value) < 2**62 else float(value))
        if expression.is_Number:
            return np.asarray(float(expression))
        name = type(expression).__name__
        function = _FUNCTIONS.get(name)
        if function is None:
            raise NotEvaluated(name)
        values = [self._of(argument) for argument in expression.args]
        return function(*values)


def _folded(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(first: Any, *others: Any) -> Any:
        for other in others:
            first = function(first, other)
        return first

    return apply


def _power(base: Any, exponent: Any) -> Any:
    if np.issubdtype(np.asarray(exponent).dtype, np.integer) and (np.asarray(exponent) < 0).any():
        return np.power(np.asarray(base, dtype=float), exponent)
    return np.power(base, exponent)


def _truncated(value: Any) -> Any:
    return np.trunc(value).astype(np.int64)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _folded(np.add),
    "Mul": _folded(np.multiply),
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": lambda base, exponent: np.power(np.asarray(base, dtype=float), exponent),
    "Mod": np.mod,
    "PythonMod": np.mod,
    "FloorDiv": np.floor_divide,
    "CleanDiv": np.floor_divide,
    "CeilDiv": lambda value, by: -np.floor_divide(-value, by),
    "IntTrueDiv": np.true_divide,
    "FloatTrueDiv": np.true_divide,
    "ToFloat": lambda value: np.asarray(value, dtype=float),
    "TruncToInt": _truncated,
    "TruncToFloat": np.trunc,
    "FloorToInt": lambda value: np.floor(value).astype(np.int64),
    "floor": lambda value: np.floor(value).astype(np.int64),
    "CeilToInt": lambda value: np.ceil(value).astype(np.int64),
    "ceiling": lambda value: np.ceil(value).astype(np.int64),
    "Identity": lambda value: value,
    "Abs": np.abs,
    "Max": _folded(np.maximum),
    "Min": _folded(np.minimum),
    "OpaqueUnaryFn_sqrt": np.sqrt,
    "OpaqueUnaryFn_exp": np.exp,
    "OpaqueUnaryFn_log": np.log,
    "OpaqueUnaryFn_log2": np.log2,
    "Equality": np.equal,
    "Unequality": np.not_equal,
    "StrictLessThan": np.less,
    "LessThan": np.less_equal,
    "StrictGreaterThan": np.greater,
    "GreaterThan": np.greater_equal,
    "And": _folded(np.logical_and),
    "Or": _folded(np.logical_or),
    "Not": np.logical_not,
}
