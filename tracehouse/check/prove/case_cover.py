"""The cover of a case: the sizes at which its conditions hold, where it would have gone the same way.

Each condition is evaluated at all sizes of its own symbols. Of several symbols, sizes that give a condition the same
operands are evaluated once.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import sympy

from tracehouse.check.prove.box_search import BoxSearch
from tracehouse.check.prove.evaluation import Evaluation, Values
from tracehouse.check.prove.size_arithmetic import CannotEvaluate, Computation
from tracehouse.check.prove.size_grid import (
    CELLS_MAX,
    Grid,
    Mask,
    Numbers,
    Plane,
    Sizes,
    TooManyCells,
    find_nearest,
    number_values,
    plane_of_sizes,
)
from tracehouse.check.prove.symbolic_case import CaseResult
from tracehouse.introspection import user_lines


@dataclass(frozen=True)
class SizeThreshold:
    """A condition that a line puts on the sizes, sizes at which it holds, and sizes at which it fails."""

    condition: str
    line: user_lines.Line | None
    holds: Sizes
    fails: Sizes


@dataclass
class Cover:
    """Planes that together hold where the case does, and planes that hold where both sides' numbers are equal too."""

    holds: list[Plane] = field(default_factory=list)
    exact: list[Plane] = field(default_factory=list)
    thresholds: list[SizeThreshold] = field(default_factory=list)

    def add(self, other: "Cover") -> None:
        """Let this cover hold only where the other one does, too."""
        self.holds += other.holds
        self.exact += other.exact
        self.thresholds += other.thresholds


@dataclass(frozen=True)
class _Requirement:
    """Something that must hold of expressions in symbols. One that `is_exact` says nothing about the case."""

    expressions: tuple[sympy.Basic, ...]
    test: Callable[[Evaluation], Values]
    text: str = ""
    line: user_lines.Line | None = None
    is_exact: bool = False
    is_condition: bool = False  # the test is that the one expression is true


_NOTHING = Plane({}, np.asarray(False))  # it holds nowhere


def find_cover(
    result: CaseResult, grid: Grid, example: Mapping[str, int], most: int = CELLS_MAX
) -> tuple[Cover, Grid, list[Numbers]]:
    """Return the sizes of the grid that the case covers, and the grid split by them as `Grid.split` does.

    If there would be over `most` cells, the case covers the sizes about those at which it began.
    """
    near = {symbol: grid.sizes(symbol) for symbol in result.free}
    while True:
        try:
            cover = Cover()
            for one in (result, *result.others):
                cover.add(_CoverSearch(one, grid, near, example).cover())
            return cover, *grid.split([*cover.holds, *cover.exact], most)
        except TooManyCells as error:
            open_symbols = [symbol for symbol, sizes in near.items() if len(sizes) > 1]
            if not open_symbols:
                return Cover([_NOTHING]), *grid.split([])
            widest = max((error.places.get(symbol, 0), symbol) for symbol in open_symbols)[1]
            near[widest] = _nearer_half(near[widest], result.sizes[widest])
        except CannotEvaluate:
            cover = Cover(grid.planes_at(result.sizes), [_NOTHING] if result.assumed_close else [])
            return cover, *grid.split(cover.holds)


def _nearer_half(sizes: Numbers, to: int) -> Numbers:
    """Return the half of the sizes that is nearest to one of them."""
    order = np.argsort(np.abs(np.log((sizes + 1.0) / (to + 1.0))), kind="stable")
    return np.sort(sizes[order[: max(1, len(sizes) // 2)]])


class _CoverSearch:
    """Evaluates the conditions of one case: first those of one symbol, then those of several where the first hold."""

    def __init__(self, result: CaseResult, grid: Grid, near: Mapping[str, Numbers], example: Mapping[str, int]) -> None:
        self._result = result
        self._grid = grid
        self._example = example
        self._cover = Cover()
        self._allowed = {symbol: self._first_sizes(symbol, near) for symbol in grid.symbols}

    def _first_sizes(self, symbol: str, near: Mapping[str, Numbers]) -> Mask:
        sizes = self._grid.sizes(symbol)
        return np.isin(sizes, near[symbol]) if symbol in near else sizes == self._result.sizes[symbol]

    def cover(self) -> Cover:
        """Return the cover. Raises CannotEvaluate, and TooManyCells if there are too many combinations."""
        by_symbols: dict[tuple[str, ...], list[_Requirement]] = {}
        for one in _requirements(self._result):
            by_symbols.setdefault(tuple(sorted(self._names_of(*one.expressions))), []).append(one)
        for symbols in sorted(by_symbols, key=len):
            self._require(symbols, by_symbols[symbols])
        self._cover.holds += [plane_of_sizes(symbol, allowed) for symbol, allowed in self._allowed.items()]
        return self._cover

    def _require(self, symbols: Sequence[str], requirements: Sequence[_Requirement]) -> None:
        """Add planes for requirements of these symbols alone."""
        places, representatives = self._representatives(symbols, requirements)
        shape = tuple(map(len, representatives.values()))
        if not math.prod(shape):
            self._cover.holds.append(_NOTHING)
            return
        if math.prod(shape) > CELLS_MAX:
            self._cover.holds.append(self._plane_in_boxes(places, representatives, requirements))
            return
        evaluation = self._evaluation(representatives)
        holds, exact = np.ones(shape, dtype=bool), np.ones(shape, dtype=bool)
        for one in requirements:
            met = np.broadcast_to(one.test(evaluation).astype(bool), shape)
            if one.is_exact:
                exact &= met
                continue
            self._note_threshold(one, representatives, holds & met, holds & ~met)
            holds &= met
        if len(symbols) == 1:
            self._allowed[symbols[0]] = self._allowed[symbols[0]] & holds[places[symbols[0]]]
        else:
            self._cover.holds.append(Plane(places, holds).merge_places())
        if not exact.all():
            self._cover.exact.append(Plane(places, exact).merge_places())

    def _plane_in_boxes(
        self,
        places: Mapping[str, Numbers],
        representatives: Mapping[str, Numbers],
        requirements: Sequence[_Requirement],
    ) -> Plane:
        """Return the plane of conditions of many sizes: boxes of sizes in which bounds decide, and small boxes.

        Raises TooManyCells if there are too many boxes.
        """
        conditions = [one.expressions[0] for one in requirements if one.is_condition]
        if len(conditions) < len(requirements):
            raise TooManyCells({symbol: len(sizes) for symbol, sizes in representatives.items()})
        boxes = BoxSearch(conditions, self._operand_values(representatives, requirements)).boxes()
        starts = [np.unique([box.ranges[axis].start for box in boxes]) for axis in range(len(places))]
        if math.prod(map(len, starts)) > CELLS_MAX:
            raise TooManyCells({symbol: len(one) for symbol, one in zip(places, starts, strict=True)})
        holds = np.zeros([len(one) for one in starts], dtype=bool)
        for box in boxes:
            inside = [np.flatnonzero((one >= range_.start) & (one < range_.stop))
                      for one, range_ in zip(starts, box.ranges, strict=True)]  # fmt: skip
            holds[np.ix_(*inside)] = box.holds
        coarse = {symbol: np.searchsorted(one, place, side="right") - 1
                  for (symbol, place), one in zip(places.items(), starts, strict=True)}  # fmt: skip
        return Plane(coarse, holds).merge_places()

    def _operand_values(
        self, representatives: Mapping[str, Numbers], requirements: Sequence[_Requirement]
    ) -> dict[sympy.Basic, tuple[int, Values]]:
        """Return for each operand that has one symbol the place of that symbol, and the values at its sizes."""
        operands = self._operands_of_one_symbol([*representatives], requirements)
        evaluations = {symbol: self._evaluation({symbol: sizes}) for symbol, sizes in representatives.items()}
        return {
            operand: (axis, np.broadcast_to(evaluations[symbol].value(operand), representatives[symbol].shape))
            for axis, symbol in enumerate(representatives)
            for operand in operands[symbol]
        }

    def _representatives(
        self, symbols: Sequence[str], requirements: Sequence[_Requirement]
    ) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
        """Return a place for each size of each symbol, and the allowed size that stands for each place.

        Sizes share a place if they give the same value to each operand that has no other symbol. Sizes that are not
        allowed are at place 0, whatever is there. Along a single symbol, each size has a place.
        """
        operands = self._operands_of_one_symbol(symbols, requirements)
        places, representatives = {}, {}
        for symbol in symbols:
            allowed = self._allowed[symbol]
            sizes = self._grid.sizes(symbol)[allowed]
            evaluation = self._evaluation({symbol: sizes})
            numbers = np.zeros(len(sizes), dtype=np.int64)
            for operand in operands[symbol] if len(symbols) > 1 else ():
                values = np.broadcast_to(evaluation.value(operand), sizes.shape)
                numbers = number_values(numbers * (len(sizes) + 1) + number_values(values))
            if len(symbols) == 1:
                numbers = np.arange(len(sizes))
            _, firsts, place_of = np.unique(numbers, return_index=True, return_inverse=True)
            places[symbol] = np.zeros(len(allowed), dtype=np.int64)
            places[symbol][allowed] = place_of
            representatives[symbol] = sizes[firsts]
        return places, representatives

    def _operands_of_one_symbol(
        self, symbols: Sequence[str], requirements: Sequence[_Requirement]
    ) -> dict[str, set[sympy.Basic]]:
        """Return by symbol the largest parts of the expressions that have this symbol alone."""
        found: dict[str, set[sympy.Basic]] = {symbol: set() for symbol in symbols}
        left = [expression for one in requirements for expression in one.expressions]
        seen: set[sympy.Basic] = set()
        while left:
            expression = left.pop()
            if expression in seen:
                continue
            seen.add(expression)
            names = self._names_of(expression)
            if len(names) == 1:
                found[next(iter(names))].add(expression)
            elif names:
                left += self._operands(expression)
        return found

    def _names_of(self, *expressions: sympy.Basic) -> set[str]:
        """Return the symbols on which the expressions depend, as the grid names them."""
        names: set[str] = set()
        for expression in expressions:
            for symbol in expression.free_symbols:
                if symbol in self._computations:
                    names |= self._names_of(*self._computations[symbol].operands)
                elif symbol in self._names:
                    names.add(self._names[symbol])
                else:
                    raise CannotEvaluate(str(symbol))
        return names

    def _operands(self, expression: sympy.Basic) -> Sequence[sympy.Basic]:
        known = self._computations.get(expression)
        operands: Sequence[sympy.Basic] = expression.args if known is None else known.operands
        return operands

    @property
    def _names(self) -> Mapping[sympy.Symbol, str]:
        return {} if self._result.symbols is None else self._result.symbols.names

    @property
    def _computations(self) -> Mapping[sympy.Symbol, Computation]:
        return {} if self._result.symbols is None else self._result.symbols.computations

    def _evaluation(self, sizes: Mapping[str, Numbers]) -> Evaluation:
        """Return an evaluation at all combinations of these sizes, with an axis for each symbol."""
        symbols = [*sizes]

        def along_its_axis(symbol: str) -> Values:
            return sizes[symbol].reshape([-1 if symbol == other else 1 for other in symbols])

        return Evaluation(along_its_axis, self._names, self._computations)

    def _note_threshold(self, one: _Requirement, sizes: Mapping[str, Numbers], holds: Mask, fails: Mask) -> None:
        """Note sizes on both sides of a condition that a line puts; the other symbols have those of the beginning."""
        if one.line is None or not fails.any() or not holds.any() or self._result.symbols is None:
            return
        fails_at = find_nearest(sizes, fails, self._example)
        holds_at = find_nearest(sizes, holds, fails_at)
        text, started = self._result.symbols.write_names(one.text), self._result.sizes
        threshold = SizeThreshold(text, one.line, {**started, **holds_at}, {**started, **fails_at})
        self._cover.thresholds.append(threshold)


def _requirements(result: CaseResult) -> Iterator[_Requirement]:
    positive = set() if result.symbols is None else {*result.symbols.names}
    for condition in result.conditions:
        for part in sympy.And.make_args(condition.expression):
            one = _cancel_factors(part, positive)
            yield _Requirement((one,), _holds(one), str(one), condition.line, is_condition=True)
    for first, second in result.assumed_equal:
        yield _Requirement((first, second), _are_equal(first, second))
    for first, second, relative in result.assumed_close:
        yield _Requirement((first, second), _are_equal_or_close(first, second, relative))
        yield _Requirement((first, second), _are_equal(first, second), is_exact=True)


def _cancel_factors(condition: sympy.Basic, positive: Collection[sympy.Basic]) -> sympy.Basic:
    """Return a relation without the positive factors that both sides have: it may depend on fewer symbols then."""
    if not isinstance(condition, sympy.core.relational.Relational):
        return condition
    sides = [Counter(sympy.Mul.make_args(side)) for side in condition.args]
    common = Counter({factor: count for factor, count in (sides[0] & sides[1]).items() if factor in positive})
    if not common:
        return condition
    first, second = (sympy.Mul(*(side - common).elements()) for side in sides)
    return condition.func(first, second)


def _holds(expression: sympy.Basic) -> Callable[[Evaluation], Values]:
    return lambda evaluation: evaluation.value(expression)


def _are_equal(first: sympy.Basic, second: sympy.Basic) -> Callable[[Evaluation], Values]:
    return lambda evaluation: evaluation.are_equal(first, second)


def _are_equal_or_close(first: sympy.Basic, second: sympy.Basic, relative: float) -> Callable[[Evaluation], Values]:
    return lambda evaluation: evaluation.are_equal(first, second) | evaluation.are_close(first, second, relative)
