"""Baked sizes: the symbols whose sizes the trace has fixed, and the line that fixed them.

The model is traced again at sizes at which the artifact is wrong. The line is where that graph first differs from the
example's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracehouse.check.graph_diff.canonical import GraphDivergence, find_divergences
from tracehouse.check.graphs.size_tests import SizeTest, compare_call
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager.call import Call
from tracehouse.introspection import user_lines
from tracehouse.introspection.user_lines import Line

_DIVERGENCES_MAX = 12  # so many differences of two graphs are searched for the cause; a choice
_RETRACES_MAX = 2  # for one set of symbols; a choice, because each trace takes as long as the first


@dataclass(frozen=True)
class BakedSize:
    """Symbols whose sizes the trace has fixed, with the sizes at which the artifact was wrong and at which it agreed.

    `divergence` is where the graph of a trace at wrong sizes first differs, and None if no such trace succeeded.
    `lines` are all lines where it differs, the likeliest cause first. `wrong` and `right` have sizes by symbol.
    """

    symbols: tuple[str, ...]
    counterexample: SizeTest
    divergence: GraphDivergence | None
    lines: list[Line]
    wrong: list[Mapping[str, int]]
    right: list[Mapping[str, int]]
    # Which dims have the symbols, and the shapes of the counterexample: the contract may have no such symbols.
    dims: str
    shapes: str
    # Whether the artifact is right where all these dims change together, and wrong where one of them changes alone.
    is_tied: bool = False
    # A call of the example's sizes with the counterexample's values, if the artifact is wrong on it too.
    by_values: Call | None = None

    @property
    def line(self) -> Line | None:
        """The likeliest line; None if none was found."""
        return next(iter(self.lines), None)


def find_baked_sizes(target: Target, groups: Groups, tests: Sequence[SizeTest], budget: Budget) -> list[BakedSize]:
    """Return the symbols whose sizes the trace has fixed, as the tests show, each with its line.

    Lines for which the budget leaves no time are left out.
    """
    wrong_tests: dict[tuple[str, ...], list[SizeTest]] = {}
    for test in tests:
        if test.is_wrong and (symbols := test.changed_symbols(groups)):
            wrong_tests.setdefault(symbols, []).append(test)
    # Several symbols together are baked only if none of them is wrong by itself.
    wrong_alone = {symbols[0] for symbols in wrong_tests if len(symbols) == 1}
    finder = _LineFinder(target, groups, budget)
    baked = [
        finder.describe(symbols, wrong, tests)
        for symbols, wrong in wrong_tests.items()
        if len(symbols) == 1 or not wrong_alone & set(symbols)
    ]
    tied = [
        finder.describe_tied(symbols, test)
        for symbols, call in groups.apart
        if (test := compare_call(target, groups, call, budget)).is_wrong
    ]
    return [*baked, *{(one.symbols, one.line): one for one in tied[::-1]}.values()]


class _LineFinder:
    """Traces the model at sizes at which the artifact is wrong, and finds the lines where the graphs diverge."""

    def __init__(self, target: Target, groups: Groups, budget: Budget) -> None:
        self._target = target
        self._groups = groups
        self._budget = budget

    def describe(self, symbols: tuple[str, ...], wrong: Sequence[SizeTest], tests: Sequence[SizeTest]) -> BakedSize:
        right = [test.sizes for test in tests if test.agrees and test.changed_symbols(self._groups) == symbols]
        counterexample, divergences = self._retrace_nearest(wrong)
        return BakedSize(
            symbols,
            counterexample,
            next(iter(divergences), None),
            _lines_at_fault(counterexample, divergences),
            [test.sizes for test in wrong],
            right,
            dims=self._groups.describe_dims(*symbols),
            shapes=self._groups.describe_shapes(symbols, counterexample.sizes),
            # The trace at that size was made on the test's values, which may take another path at any size.
            by_values=self._find_wrong_values(counterexample),
        )

    def describe_tied(self, symbols: tuple[str, ...], test: SizeTest) -> BakedSize:
        """Return dims that have these symbols because the artifact is wrong where one of them changes alone."""
        divergences = self._divergences(test, symbols)
        return BakedSize(
            symbols,
            test,
            next(iter(divergences), None),
            _lines_at_fault(test, divergences),
            wrong=[],
            right=[self._groups.example],
            dims=self._groups.describe_dims(*symbols),
            shapes=self._groups.describe_call(self._target.call, test.call),
            is_tied=True,
        )

    def _find_wrong_values(self, test: SizeTest) -> Call | None:
        """Return the values of the test at the example's sizes if the artifact is wrong there too; None if not.

        Then no size is at fault, but values that were tried at other sizes alone.
        """
        if test.outcome != "differs":
            return None
        call = self._groups.resize(test.call, self._groups.example, self._target.seed)
        again = compare_call(self._target, self._groups, call, self._budget)
        return call if again.outcome == "differs" else None

    def _retrace_nearest(self, wrong: Sequence[SizeTest]) -> tuple[SizeTest, list[GraphDivergence]]:
        for test in sorted(wrong, key=self._distance)[:_RETRACES_MAX]:
            if divergences := self._divergences(test, test.changed_symbols(self._groups)):
                return test, divergences
        return wrong[0], []

    def _distance(self, test: SizeTest) -> tuple[bool, int]:
        """Sort size 1 last: a graph at size 1 differs in much that is not the cause."""
        distances = [abs(size - self._groups.example[name]) for name, size in test.sizes.items()]
        return 1 in test.sizes.values(), sum(distances)

    def _divergences(self, test: SizeTest, symbols: Sequence[str]) -> list[GraphDivergence]:
        target = self._target
        if target.retrace is None:
            return []
        if self._budget.is_spent:
            self._budget.leave_out(f"the line that baked the size of {', '.join(symbols)} was not searched for")
            return []
        try:
            with time_limit(max(self._budget.left_s, CALL_LIMITS.line_trace_s)):
                graph = target.trace_again(test.call)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
            return []
        divergences = find_divergences(target.graph, graph, limit=_DIVERGENCES_MAX)
        return sorted(divergences, key=lambda divergence: not self._is_cause(divergence, test))

    def _is_cause(self, divergence: GraphDivergence, test: SizeTest) -> bool:
        """Whether the divergence is the changed size itself or a step that one graph lacks, and no consequence."""
        pairs = {(str(self._groups.example[symbol]), str(test.sizes[symbol])) for symbol in test.sizes}
        return divergence.kind != "wiring" and (
            divergence.kind == "struct" or (divergence.was, divergence.is_) in pairs
        )


def _lines_at_fault(test: SizeTest, divergences: Sequence[GraphDivergence]) -> list[Line]:
    """Return the lines where the graphs differ; if no other graph was made, the line at which the artifact raised."""
    origins = [one.origin for one in divergences] or [_line_of_error(test)]
    return [*dict.fromkeys(line for line in origins if line is not None)]


def _line_of_error(test: SizeTest) -> Line | None:
    """Return the line of the node at which the artifact raised; TorchScript's message has the stack that led to it."""
    return None if test.error is None else user_lines.line_of_stack(user_lines.full_error_text(test.error))
