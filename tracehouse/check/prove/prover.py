"""The prover: it runs symbolic cases until they cover the wanted sizes, lead nowhere, or the time is over."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tracehouse.check.instrumentation.followed_code import follow_code
from tracehouse.check.prove.beyond import BeyondSearch
from tracehouse.check.prove.case_cover import Cover, SizeThreshold, find_cover
from tracehouse.check.prove.interpreter import Program
from tracehouse.check.prove.memory_need import join
from tracehouse.check.prove.proven_runs import ProvenRuns
from tracehouse.check.prove.size_division import SizeDivision
from tracehouse.check.prove.size_follower import SizeFollower
from tracehouse.check.prove.size_grid import CELLS_MAX, Mask, Sizes, SizeSet, TooManyCells, plane_of_sizes
from tracehouse.check.prove.symbolic_case import CaseResult, CaseStatus, SymbolicCases
from tracehouse.check.prove.symbols import LEAST
from tracehouse.check.prove.wanted_sizes import is_batch
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import alarm
from tracehouse.contract.memory import Memory
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.differential.size_samples import STAND_IN_PROBES
from tracehouse.eager.call import Call
from tracehouse.introspection import user_lines

# Cases in which no symbol has size 0 or 1, and cases at all: where 1 goes another way, k symbols have up to 2**k.
CASES_MAX = 24
_ALL_CASES_MAX = 40
# Proofs in which a symbol has one size, such as one for each number of turns of a loop. Chosen: more take all the time.
_SINGLE_SIZE_PROOFS_MAX = 32
_EMPTY_CASES_MAX = 8  # of cases in which a symbol has size 0
FAILED_CASES_MAX = 3  # refuted or unproven: more of them tell a person little
REFUSED_CASES_MAX = 6
# The fraction of the time left that a case with free symbols may take: one with fewer is hardly quicker. A choice.
_FREE_SHARE = 0.85
_REGIONS_NAMED = 2
# Of the time left, what it may take to find how far proven regions go on beyond the wanted sizes, and how many of them
# are tried, the weightiest first. Choices.
_BEYOND_SHARE = 0.1
_BEYOND_REGIONS_MAX = 8
# After so many proofs in a row in which a symbol had only one size, the next case begins with that symbol as a number.
_SINGLE_SIZE_CASES = 3
# Why a proof ends before all sizes are covered, as a person reads it.
_Limit = Literal["failed", "refused", "narrow"]
# Where a case would take all cells that there may be, it takes so many times fewer, for later cases. Chosen.
_ROOM = 8
_ENTANGLED = "the proof ended: the sizes depend on each other in too many ways"
_ROUNDED = "the artifact rounds a number otherwise that it computes from sizes"
_LIMIT_TEXTS: dict[_Limit, str] = {
    "failed": f"{FAILED_CASES_MAX} of which came to nothing",
    "refused": f"{REFUSED_CASES_MAX} of which the model refused",
    "narrow": "each of which holds for few sizes",
}


@dataclass(frozen=True)
class Refutation:
    """Sizes at which the artifact answers differently from eager; the line is where their computations diverge."""

    sizes: Sizes
    line: user_lines.Line | None
    operator: str
    reason: str
    call: Call | None = None  # on which they differ, where calls on drawn values do not show it


@dataclass(frozen=True)
class ProofGap:
    """Sizes from which no proof was found, and the reason; at these sizes both agree, if both could be called.

    `is_cut`: a limit ended the proof before them.
    """

    sizes: Sizes
    line: user_lines.Line | None
    reason: str
    is_cut: bool = False


@dataclass(frozen=True)
class Proof:
    """The result for the wanted sizes. Each count is a number of points of the grid, that is of combinations of sizes.

    `regions` are proven. `proven_on_symbols` are proven only if the model computes on real tensors what it computes on
    tensors without values; at least once it was seen to run other operators there. `sampled` are proven but for the
    last bits of a number that is computed from sizes, or but for values that the model reads: calls that read others
    agreed. At the sizes of `decided_by_values` the result depends on values that the model reads, though not at the
    example's: what a call shows there holds for its values alone.
    """

    regions: list[Region]
    proven_on_symbols: list[Region]
    sampled: list[Region]
    decided_by_values: SizeSet
    points: int
    proven: int
    refused: int
    failed: int
    uncovered: int
    refutations: list[Refutation] = field(default_factory=list)
    gaps: list[ProofGap] = field(default_factory=list)
    thresholds: list[SizeThreshold] = field(default_factory=list)
    borders: list[tuple[Sizes, Sizes]] = field(default_factory=list)  # the first and last sizes that each case covers
    cases: int = 0
    # What memory a call needs at most; None if no region has sizes beyond the wanted ones.
    memory: Memory | None = None
    runs: ProvenRuns | None = None  # of the artifact, as far as it is proven
    # Whether another width of the integers in the inputs, INT32 in place of INT64, may change what was proven.
    tells_widths: bool = True


class _TimeIsOver(BaseException):
    """The case has used its time. No Exception, so that `except Exception` in a model's own code does not catch it."""


def prove(
    target: Target,
    groups: Groups,
    wanted: Mapping[str, Sequence[int]],
    budget: Budget,
    harmless: Collection[user_lines.Line] = (),
    numbers: Collection[float] = (),
    reach: Mapping[str, int] | None = None,
) -> Proof:
    """Prove for as many of the wanted sizes as possible that the artifact computes what the eager model computes.

    `wanted` has sizes by symbol; a symbol that it lacks keeps the example's size. `harmless` are lines that read
    values which change nothing in the result at the example's sizes; `numbers` are those that such a value may be
    compared with. `reach` has for symbols how large their sizes may become beyond the wanted ones, where the proof
    holds for all of these.
    """
    prover = _Prover(target, groups, wanted, budget, reach or {}, harmless)
    try:
        program = Program(target.artifact, target.method)
    except Exception as error:  # noqa: BLE001 - a graph that cannot be read
        prover.give_up(f"the artifact's graph cannot be read: {error}")
        return prover.proof()
    try:
        follower = SizeFollower()
        with follow_code(follower):
            prover.run_cases(SymbolicCases(target, groups, program, harmless, numbers, follower, reach))
    finally:
        target.model.shared.restore()
    return prover.proof()


class _Prover:
    """The wanted sizes, divided into what is proven, refused, failed, and left."""

    def __init__(
        self,
        target: Target,
        groups: Groups,
        wanted: Mapping[str, Sequence[int]],
        budget: Budget,
        reach: Mapping[str, int],
        harmless: Collection[user_lines.Line],
    ) -> None:
        self._target = target
        self._harmless = harmless
        self._reach = reach
        self._groups = groups
        self._budget = budget
        self._division = SizeDivision({symbol: wanted.get(symbol, [size]) for symbol, size in groups.example.items()})
        self._batches = [symbol for symbol in groups.symbols if is_batch(symbol, groups)]
        empty = {symbol: self._division.grid.sizes(symbol) == 0 for symbol in groups.may_be_empty}
        self._not_empty = [plane_of_sizes(symbol, ~is_empty) for symbol, is_empty in empty.items()]
        self._division.split(*self._division.grid.split(self._not_empty))
        self._first_sizes = _choose_first_sizes(groups, [one for one in groups.symbols if groups.is_leading(one)])
        self._results: list[CaseResult] = []
        self._proves_rows_alone = False  # at the example's other sizes
        self._decided_by_data = False  # whether a size that follows from values decides at some sizes
        self._refutations: list[Refutation] = []
        self._gaps: list[ProofGap] = []
        self._thresholds: dict[tuple[str, user_lines.Line | None], SizeThreshold] = {}
        self._borders: list[tuple[Sizes, Sizes]] = []

    def run_cases(self, cases: SymbolicCases) -> None:
        """Run cases until all sizes are covered, a limit is met, or the time is over."""
        while self._left().any() and self._limit() is None:
            sizes = self._next_sizes()
            result = self._run_case(cases, sizes, self._batches if self._is_for_rows_alone(sizes) else None)
            if result is None:
                return
            narrower = self._run_narrower(cases, result)
            self._proves_rows_alone |= narrower is not None
            for one in filter(None, (narrower, result)):
                self._results.append(one)
                try:
                    self._apply(one)
                except TooManyCells:
                    self._note_gap(ProofGap(one.sizes, one.line, _ENTANGLED, is_cut=True))
                    return
                if one.state_changes_answers:
                    self._withdraw_proofs()
                    return
        limit = self._limit()
        if self._left().any() and limit is not None:
            if self._decided_by_data and limit == "failed":  # nothing says that it does not decide there as well
                self._division.note_decided(self._division.mask("left"))
            self._note_what_is_left(limit)

    def _left(self) -> Mask:
        """Return the cells left. Those of a size of 0 are no longer left after some cases: few people need them."""
        left = self._division.mask("left")
        empty_cases = sum(0 in result.sizes.values() for result in self._results)
        return left & self._division.grid.where(self._not_empty) if empty_cases >= _EMPTY_CASES_MAX else left

    def _note_what_is_left(self, limit: _Limit) -> None:
        if limit == "failed" and any(result.status == "unproven" for result in self._results):
            return  # the gaps of these cases say it already
        grid, mask = self._division.grid, self._left()
        first = grid.nearest(mask, self._groups.example, self._batches)
        left = grid.regions(mask, "observed")
        more = " and others" if len(left) > _REGIONS_NAMED else ""
        reason = f"the proof ended after {len(self._results)} runs, {_LIMIT_TEXTS[limit]}; not covered are "
        self._note_gap(ProofGap(first, None, reason + "; ".join(map(str, left[:_REGIONS_NAMED])) + more, is_cut=True))

    def _withdraw_proofs(self) -> None:
        self._division.put(self._division.mask("proven", "proven-on-symbols", "sampled"), "failed")

    def give_up(self, reason: str) -> None:
        """Leave all sizes unproven, for this reason."""
        self._gaps.append(ProofGap(dict(self._groups.example), None, reason))

    def proof(self) -> Proof:
        """Return what the cases have shown so far."""
        division, grid = self._division, self._division.grid
        regions, memory = self._find_beyond(grid.regions(division.mask("proven"), "proven"))
        return Proof(
            regions,
            grid.regions(division.mask("proven-on-symbols"), "sampled"),
            grid.regions(division.mask("sampled"), "sampled"),
            division.decided,
            points=grid.count(grid.full_mask()),
            proven=division.count("proven"),
            refused=division.count("refused"),
            failed=division.count("failed"),
            uncovered=division.count("left"),
            refutations=self._refutations,
            gaps=self._gaps,
            thresholds=list(self._thresholds.values()),
            borders=self._borders,
            cases=len(self._results),
            memory=memory,
            runs=ProvenRuns(division, self._results),
            tells_widths=any(result.tells_widths for result in self._results),
        )

    def _find_beyond(self, regions: list[Region]) -> tuple[list[Region], Memory | None]:
        """Return the regions with the sizes beyond the wanted ones for which they are proven, and their memory."""
        steps = {symbol: self._groups.step(symbol) for symbol in self._groups.symbols}
        search = BeyondSearch(self._division, self._results, steps, self._reach, self._budget.share(_BEYOND_SHARE))
        tried = regions[:_BEYOND_REGIONS_MAX] if self._reach else []
        extended = [search.extend(region) for region in tried]
        needs = [memory for region, memory in extended if memory is not None]
        needed = join(needs) if needs else None
        if needed is None:
            return regions, None
        return [*(region for region, _ in extended), *regions[len(tried) :]], needed

    def _limit(self) -> _Limit | None:
        """Return the limit that was met, if one was."""
        if self._count("refuted", "unproven") >= FAILED_CASES_MAX:
            return "failed"
        single = [self._is_single_size_proof(result) for result in self._results]
        others = [result for result, is_single in zip(self._results, single, strict=True) if not is_single]
        usual = [result for result in others if min(result.sizes.values(), default=LEAST) >= LEAST]
        if sum(result.status == "refused" for result in usual) >= REFUSED_CASES_MAX:
            return "refused"
        is_narrow = len(usual) >= CASES_MAX or len(others) >= _ALL_CASES_MAX or sum(single) >= _SINGLE_SIZE_PROOFS_MAX
        return "narrow" if is_narrow else None

    def _is_single_size_proof(self, result: CaseResult) -> bool:
        """Whether it is a proof for one size of a symbol of which more sizes are wanted."""
        return result.status == "proven" and any(
            result.sizes[symbol] >= LEAST and symbol not in result.free and len(axis) > 1
            for symbol, axis in zip(self._division.grid.symbols, self._division.grid.axes, strict=True)
        )

    def _count(self, *statuses: CaseStatus) -> int:
        return sum(result.status in statuses for result in self._results)

    def _next_sizes(self) -> Sizes:
        """Return the sizes at which the next case begins: the first that are left, or those nearest to the example's.

        Each case that failed doubles the sizes to be near to, so that the next one begins farther away. Where each size
        of a symbol is a case of its own, as where a loop turns once for each element, the smallest come first: they
        cost least.
        """
        grid, left = self._division.grid, self._left()
        for sizes in self._first_sizes:
            cell = grid.cell_of(sizes)
            if cell is not None and left[cell]:
                return sizes
        failed = self._count("refuted", "unproven")
        near = {name: 1 if self._has_single_size(name) else size << failed for name, size in self._stand_in().items()}
        return grid.nearest(left, near, self._batches)

    def _stand_in(self) -> Sizes:
        """Return the example's sizes, the large ones made smaller if the example's case is proven there too.

        The calls of the cases beside it cost less then.
        """
        example, grid = self._groups.example, self._division.grid
        batches = {symbol: example[symbol] for symbol in self._batches}
        small = {symbol: min(size, STAND_IN_PROBES) for symbol, size in example.items()} | batches
        cell = grid.cell_of(small)
        return small if cell is not None and self._division.mask("proven")[cell] else example

    def _run_narrower(self, cases: SymbolicCases, failed: CaseResult) -> CaseResult | None:
        """Run a case that failed at the example's sizes once more, with free rows alone; None if that proves nothing.

        A trace may keep the example's height and width, and be right for any number of images.
        """
        rows = [symbol for symbol in failed.free if symbol in self._batches]
        if failed.sizes != self._groups.example or not 0 < len(rows) < len(failed.free):
            return None
        if failed.status not in ("refuted", "unproven"):
            return None
        known = len(self._gaps)
        result = self._run_case(cases, failed.sizes, rows)
        del self._gaps[known:]  # why this run came to nothing tells nobody more
        return result if result is not None and result.status == "proven" else None

    def _is_for_rows_alone(self, sizes: Sizes) -> bool:
        """Whether only rows can be free at these sizes, because that is so for other numbers of rows."""
        example = self._groups.example
        others = [symbol for symbol in sizes if symbol not in self._batches]
        return self._proves_rows_alone and all(sizes[symbol] == example[symbol] for symbol in others)

    def _run_case(
        self, cases: SymbolicCases, sizes: Sizes, symbols: Collection[str] | None = None
    ) -> CaseResult | None:
        """Run the case that begins at these sizes; if it takes too long, with fewer symbols. None without time left.

        Only these `symbols` may be free; None: all.
        """
        free = {
            symbol: int(axis[-1])
            for symbol, axis in zip(self._division.grid.symbols, self._division.grid.axes, strict=True)
            if sizes[symbol] >= LEAST
            and len(axis) > 1
            and not self._has_single_size(symbol)
            and (symbols is None or symbol in symbols)
        }
        while not self._budget.is_spent:
            try:
                with _limit_time(self._budget.share(_FREE_SHARE if free else 1.0)):
                    call = self._groups.resize(self._target.call, sizes, self._target.seed)
                    return cases.run(call, sizes, free)
            except _TimeIsOver:
                if not free:
                    break
                free.popitem()
            except Exception as error:  # noqa: BLE001 - whatever torch does not do without values
                self._gaps.append(
                    ProofGap(sizes, None, f"{type(error).__name__}: {user_lines.public_error_text(error)}")
                )
                return None
        self._gaps.append(ProofGap(sizes, None, "there was no time left", is_cut=0 not in sizes.values()))
        return None

    def _has_single_size(self, symbol: str) -> bool:
        """Whether in each of the last cases the symbol was left one size. A run is saved if it is a number at once."""
        last = [result for result in self._results if result.sizes[symbol] >= LEAST][-_SINGLE_SIZE_CASES:]
        return len(last) == _SINGLE_SIZE_CASES and all(
            result.status == "proven" and symbol not in result.free for result in last
        )

    def _apply(self, result: CaseResult) -> None:
        """Take the points that the case covers from those left, and put them in a part by its status."""
        reads_anew = self._target.reads_values_anew
        if result.value_decides and not reads_anew and result.line not in self._harmless:
            self._note_decided_by_data(result)
        covered, exact = self._covered_cells(result)
        division, grid = self._division, self._division.grid
        self._borders += grid.corners(covered)
        example = grid.cell_of(self._groups.example)
        at_example = example is not None and covered[example]
        if result.value_decides and not at_example and not reads_anew:
            division.note_decided(covered)
        gap = ProofGap(result.sizes, result.line, result.reason)
        match result.status:
            case "proven":
                # A region in pieces would tell nobody more: it is proven whole or not at all.
                if (covered & ~exact).any():
                    division.put(covered, "sampled")
                    self._note_gap(ProofGap(grid.nearest(covered & ~exact, result.sizes), None, _ROUNDED))
                else:
                    division.put(covered, "proven", len(self._results) - 1)
            case "proven-on-symbols" | "sampled":
                division.put(covered, result.status)
                self._note_gap(gap)
            case "refused":
                division.put(covered, "refused")
            case "refuted":
                division.put(covered, "failed")
                self._refutations.append(
                    Refutation(result.sizes, result.line, result.operator, result.reason, result.counterexample)
                )
            case "unproven":
                division.put(covered, "failed")
                self._note_gap(gap)

    def _note_decided_by_data(self, result: CaseResult) -> None:
        """Note all sizes that go the same way up to a question about a size which follows from values.

        Values decide at each of them, also where the example's are too few to give another answer to the question.
        """
        wider = result.without_conditions_on_data()
        if len(wider.conditions) == len(result.conditions):
            return
        try:
            covered = self._cover(wider, CELLS_MAX // _ROOM)[1]
        except TooManyCells:
            covered = self._division.grid.full_mask()
        self._division.note_decided(covered)
        self._decided_by_data = True

    def _note_gap(self, gap: ProofGap) -> None:
        if not any((other.reason, other.line) == (gap.reason, gap.line) for other in self._gaps):
            self._gaps.append(gap)

    def _covered_cells(self, result: CaseResult) -> tuple[Mask, Mask]:
        """Return the cells left at which the case's conditions hold, where it would have gone the same way.

        The second mask has those at which all numbers that both sides compute from sizes are equal to the last bit.
        """
        try:
            cover, covered = self._cover(result, CELLS_MAX)
        except TooManyCells:
            cover, covered = self._cover(result, CELLS_MAX // _ROOM)
        for one in cover.thresholds:
            self._thresholds.setdefault((one.condition, one.line), one)
        return covered & self._division.mask("left"), self._division.grid.where(cover.exact)

    def _cover(self, result: CaseResult, most: int) -> tuple[Cover, Mask]:
        """Return what the case covers, with the cells. The division is split by them, and by the case's own sizes.

        Raises TooManyCells if `most` cells for all that it covers leave no room for its own sizes.
        """
        cover, grid, old_places = find_cover(result, self._division.grid, self._groups.example, most)
        covered = grid.where(cover.holds)
        cell = grid.cell_of(result.sizes)
        if cell is None or covered[cell]:
            self._division.split(grid, old_places)
            return cover, covered
        own = grid.planes_at(result.sizes)
        finer, finer_places = grid.split(own)
        self._division.split(grid, old_places)
        self._division.split(finer, finer_places)
        return cover, covered[np.ix_(*finer_places)] | finer.where(own)


def _choose_first_sizes(groups: Groups, leading: Sequence[str]) -> list[Sizes]:
    """Return the sizes to begin with: the example's, those with one row, and both where all is empty that may be, with
    one element of the rest and with several. `leading` symbols are numbers of rows."""
    single = dict.fromkeys(leading, 1)
    empty = dict.fromkeys(groups.may_be_empty, 0)
    if not empty:
        alone: list[Sizes] = [{symbol: 1} for symbol in leading] if len(leading) > 1 else []
        return [{**groups.example, **other} for other in ({}, single, *alone)]
    rest = {symbol: groups.example[symbol] for symbol in groups.symbols if symbol not in leading}
    one_each = {symbol: min(size, 1) for symbol, size in rest.items()} | empty
    several_each = {symbol: max(size, LEAST) for symbol, size in rest.items()} | empty
    begun: list[Sizes] = [{}, single, empty, single | empty]
    begun += [one_each, several_each, single | one_each, single | several_each]
    return [{**groups.example, **other} for other in begun]


def _limit_time(budget: Budget) -> AbstractContextManager[None]:
    """Within the context that is returned, _TimeIsOver is raised when the budget is spent."""

    def stop() -> None:
        if budget.is_spent:
            raise _TimeIsOver

    return alarm(max(budget.left_s, 0.001), stop)
