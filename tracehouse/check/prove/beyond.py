"""Beyond: whether a proof holds for sizes beyond those that are wanted, up to a largest one, without a call of them.

A case holds for all sizes that satisfy its conditions. At the wanted sizes they are evaluated one by one. Beyond them
they are decided for all sizes at once, by the bounds of what they compare and by the signs of its products.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import sympy

from tracehouse.check.prove.condition_bounds import Bounds, decide
from tracehouse.check.prove.memory_need import join, memory_of
from tracehouse.check.prove.size_bounds import Unbounded
from tracehouse.check.prove.size_division import SizeDivision
from tracehouse.check.prove.size_grid import Mask, Numbers
from tracehouse.check.prove.symbolic_case import CaseResult
from tracehouse.contract.memory import ELEMENTS_MAX, Memory
from tracehouse.contract.regions import Region, Span
from tracehouse.differential.budget import Budget
from tracehouse.torch_values import structure

# The largest size beyond the wanted ones: float32 and the indices of kernels have all integers up to it.
BEYOND_MAX = 2**24
# So many symbols of a region are tried together.
_SYMBOLS_MAX = 4

# A relation holds where it holds between these bounds of what its sides differ by, and 0.
_RELATIONS = {
    "Equality": lambda ends: ends == (0, 0),
    "Unequality": lambda ends: ends[0] > 0 or ends[1] < 0,
    "StrictLessThan": lambda ends: ends[1] < 0,
    "LessThan": lambda ends: ends[1] <= 0,
    "StrictGreaterThan": lambda ends: ends[0] > 0,
    "GreaterThan": lambda ends: ends[0] >= 0,
}


@dataclass(frozen=True)
class _Part:
    """Sizes of a region that one case covers: by symbol the smallest and the largest, and the symbols that go on.

    `owner` is the number of the case.
    """

    owner: int
    case: CaseResult
    bounds: Mapping[str, Bounds]
    going_on: frozenset[str]


class BeyondSearch:
    """Finds for a proven region the symbols whose sizes go on, and what memory a call of its sizes needs."""

    def __init__(
        self,
        division: SizeDivision,
        results: Sequence[CaseResult],
        steps: Mapping[str, int],
        reach: Mapping[str, int],
        budget: Budget,
    ) -> None:
        """`steps` has the distance between two sizes of each symbol; `reach` has how large those may be that go on."""
        self._division = division
        self._results = results
        self._steps = steps
        self._reach = reach
        self._budget = budget
        self._needs: dict[int, Memory | None] = {}
        self._decided: dict[tuple[Hashable, ...], bool] = {}

    def extend(self, region: Region) -> tuple[Region, Memory | None]:
        """Return the region with the sizes beyond for which it is proven, and what memory it needs; else as it is."""
        alone = {symbol: self._farthest(symbol, region) for symbol in region.spans if self._is_open(symbol, region)}
        open_symbols = [symbol for symbol, end in alone.items() if end is not None][:_SYMBOLS_MAX]
        for count in range(len(open_symbols), 0, -1):
            for symbols in combinations(open_symbols, count):
                beyond = {symbol: end for symbol in symbols if (end := alone[symbol]) is not None}
                if not self._holds(region, beyond):
                    continue
                memory = self._memory(region)
                if memory is None or _is_too_large_always(memory, region):
                    return region, None
                return region.model_copy(update={"beyond": beyond}), memory
        return region, None

    def _is_open(self, symbol: str, region: Region) -> bool:
        """Whether the region has the largest wanted size of the symbol, and its last span goes on in the same steps."""
        span, step = region.spans[symbol][-1], self._steps[symbol]
        return (
            symbol in self._reach
            and span.high == int(self._division.grid.sizes(symbol)[-1])
            and (span.step == step if span.low < span.high else step == 1)
        )

    def _farthest(self, symbol: str, region: Region) -> int | None:
        """Return the largest size of the symbol for which the region goes on; None if it does not."""
        high, step = region.spans[symbol][-1].high, self._steps[symbol]
        end = self._reach[symbol]
        while end >= high + step:
            last = high + (end - high) // step * step
            if self._holds(region, {symbol: last}):
                return last
            end //= 2
        return None

    def _holds(self, region: Region, ends: Mapping[str, int]) -> bool:
        """Whether the region goes on for these symbols, together and each alone, up to these sizes."""
        every = (some for count in range(1, len(ends) + 1) for some in combinations(ends, count))
        going_on = ({symbol: ends[symbol] for symbol in some} for some in every)
        return all(self._part_holds(part) for some in going_on for part in self._parts(region, some))

    def _parts(self, region: Region, ends: Mapping[str, int]) -> Iterator[_Part]:
        """Yield what each case covers of the region where the symbols of `ends` are beyond the wanted sizes."""
        grid = self._division.grid
        places: list[Numbers] = []
        bounds_at: list[list[Bounds]] = []
        for symbol in grid.symbols:
            sizes, cells = grid.sizes(symbol), grid.cells(symbol)
            inside = np.isin(sizes, [size for span in region.spans[symbol] for size in _sizes_of(span)])
            inside &= sizes == sizes[-1] if symbol in ends else True
            places.append(np.unique(cells[inside]))
            bounds_at.append([(int(one.min()), int(one.max())) for one in (sizes[cells == at] for at in places[-1])])
        owners = self._division.owners[np.ix_(*places)]
        for owner in np.unique(owners):
            where: Mask = owners == owner
            bounds: dict[str, Bounds] = {}
            for axis, symbol in enumerate(grid.symbols):
                others = tuple(other for other in range(where.ndim) if other != axis)
                spans = [bounds_at[axis][at] for at in np.flatnonzero(where.any(axis=others))]
                bounds[symbol] = min(low for low, _ in spans), max(high for _, high in spans)
            bounds |= {symbol: (region.spans[symbol][-1].high + self._steps[symbol], end)
                       for symbol, end in ends.items()}  # fmt: skip
            yield _Part(int(owner), self._results[owner], bounds, frozenset(ends))

    def _part_holds(self, part: _Part) -> bool:
        return all(self._case_holds(one, part) for one in (part.case, *part.case.others))

    def _case_holds(self, case: CaseResult, part: _Part) -> bool:
        if case.symbols is None or not part.going_on <= {*case.free}:
            return False
        pairs = [*case.assumed_equal, *((first, second) for first, second, _ in case.assumed_close)]
        if any(one != other and _names_of((one, other), case) & part.going_on for one, other in pairs):
            return False
        return all(
            self._condition_holds(one, case, part)
            for condition in case.conditions
            for one in sympy.And.make_args(condition.expression)
            if _names_of((one,), case) & part.going_on
        )

    def _condition_holds(self, condition: sympy.Basic, case: CaseResult, part: _Part) -> bool:
        """Whether the condition holds at all sizes of the part, as far as that can be decided in time."""
        assert case.symbols is not None
        names = sorted(_names_of((condition,), case))
        key = (id(case), condition, tuple((name, part.bounds[name], name in part.going_on) for name in names))
        known = self._decided.get(key)
        if known is None:
            known = self._decided[key] = not self._budget.is_spent and self._decide(condition, case, part)
        return known

    def _decide(self, condition: sympy.Basic, case: CaseResult, part: _Part) -> bool:
        assert case.symbols is not None
        bounds: dict[sympy.Basic, Bounds] = {}
        substituted: dict[sympy.Basic, sympy.Basic] = {}
        for symbol, name in case.symbols.names.items():
            if symbol in condition.free_symbols:
                low, high = part.bounds[name]
                step = self._steps[name] if name in part.going_on else 1
                above = sympy.Symbol(f"{name}_above", integer=True, nonnegative=True)
                substituted[symbol] = low + step * above
                bounds[above] = 0, (high - low) // step
        try:
            return _is_true(condition.xreplace(substituted), bounds)
        except Exception:  # noqa: BLE001 - sympy raises errors of many kinds where it cannot compare
            return False

    def _memory(self, region: Region) -> Memory | None:
        """Return what a call of the region's sizes needs, in all cases that cover it; None if that is not known."""
        owners = sorted(
            {part.owner for part in self._parts(region, {})}, key=lambda owner: -len(self._results[owner].free)
        )
        total: Memory | None = None
        for owner in owners:
            need = self._need_of(owner)
            if need is None:
                return None
            case = self._results[owner]
            own = {symbol: size for symbol, size in case.sizes.items() if symbol not in case.free}
            if total is None:
                total = need
            elif not need.is_within(total.at_fixed(own)) and (total := join([total, need])) is None:
                return None
        return total

    def _need_of(self, owner: int) -> Memory | None:
        if owner not in self._needs:
            self._needs[owner] = _find_need(self._results[owner])
        return self._needs[owner]


def _is_too_large_always(memory: Memory, region: Region) -> bool:
    """Whether a tensor may be too large even at the smallest sizes, as where only values say how large it is."""
    smallest = {symbol: spans[0].low for symbol, spans in region.spans.items()}
    return memory.largest_elements(smallest) > ELEMENTS_MAX


def _find_need(case: CaseResult) -> Memory | None:
    needs = []
    for one in (case, *case.others):
        if one.artifact_run is None or one.symbols is None:
            return None
        run = one.artifact_run
        outputs = structure.tensors(run.outputs, "output").values()
        try:
            needs.append(memory_of(run.recorder.trail, run.inputs.values(), outputs, one.symbols))
        except (Unbounded, KeyError):
            return None
    return join(needs)


def _is_true(condition: sympy.Basic, bounds: Mapping[sympy.Basic, Bounds]) -> bool:
    name = type(condition).__name__
    if condition is sympy.true or condition is sympy.false:
        return condition is sympy.true
    if name == "And":
        return all(_is_true(one, bounds) for one in condition.args)
    if name == "Or" and any(_is_true(one, bounds) for one in condition.args):
        return True
    if decide(condition, bounds.get):
        return True
    if name not in _RELATIONS:
        return False
    difference = sympy.expand(condition.args[0] - condition.args[1])
    holds = bool(_RELATIONS[name](_ends_of(difference)))
    return holds or bool(decide(condition.func(difference, 0, evaluate=False), bounds.get))


def _ends_of(polynomial: sympy.Basic) -> tuple[float, float]:
    """Return bounds of a polynomial in symbols from 0 on: where all its products have one sign, its constant."""
    least = most = 0.0
    for term in sympy.Add.make_args(polynomial):
        factor, rest = term.as_coeff_Mul()
        if rest == 1:
            least, most = least + float(factor), most + float(factor)
        elif not all(one.is_nonnegative for one in sympy.Mul.make_args(rest)):
            return -np.inf, np.inf
        elif factor > 0:
            most = np.inf
        else:
            least = -np.inf
    return least, most


def _names_of(expressions: Sequence[sympy.Basic], case: CaseResult) -> set[str]:
    """Return the names of sizes on which the expressions depend."""
    assert case.symbols is not None
    names: set[str] = set()
    for expression in expressions:
        for symbol in expression.free_symbols:
            if symbol in case.symbols.computations:
                names |= _names_of(case.symbols.computations[symbol].operands, case)
            elif symbol in case.symbols.names:
                names.add(case.symbols.names[symbol])
            else:  # a size that follows from values may follow from any size
                names |= {*case.symbols.names.values()}
    return names


def _sizes_of(span: Span) -> range:
    return range(span.low, span.high + 1, span.step)
