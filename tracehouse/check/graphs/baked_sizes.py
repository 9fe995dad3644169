"""Sizes: the artifact against eager at other sizes than the example's, and the line that baked one where they part."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from typing import Literal

from tracehouse.check.calls import Answer, call_artifact
from tracehouse.check.graph_diff.canonical import GraphDivergence, canonical, difference
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised
from tracehouse.introspection import user_lines
from tracehouse.introspection.user_lines import Line
from tracehouse.spec.trace_spec import WantedSizes
from tracehouse.torch_values.compare import compare as compared

# agrees, differs and raised are the artifact's; refused and too-slow are eager's, and no fault of the trace.
# unsure: eager itself answers another time otherwise, as where an operator reads memory that is not its own.
Outcome = Literal["agrees", "differs", "raised", "refused", "too-slow", "unsure"]

_ALONE = (1, 2, 3, 5, 17, 8, 33, 65)
# After so many wrong sizes of a symbol, and no right one, it is baked.
_WRONG_MAX = 3
_CORNERS_MAX = 8
_CORNER_SIZE = 17
_CORNER_TIMES_EXAMPLE = 3
_EDGES_MAX = 6
_PARTINGS_MAX = 12
_RETRACES_MAX = 2  # of a symbol
_SMALL_MAX = 16


@dataclass(frozen=True)
class SizeTried:
    """One call with these sizes of all symbols: what came of it, and the error of the side that raised."""

    sizes: Mapping[str, int]
    call: Call
    outcome: Outcome
    difference: Difference | None = None
    error: Exception | None = None
    after: Difference | None = None  # how eager answers the example otherwise, once it was asked this

    @property
    def agrees(self) -> bool:
        return self.outcome == "agrees"

    @property
    def is_wrong(self) -> bool:
        """The artifact is wrong there: eager answered, and the artifact otherwise, or not at all."""
        return self.outcome in ("differs", "raised")


@dataclass(frozen=True)
class BakedSize:
    """The sizes of these symbols are kept by the trace: `wrong` and `right` are those that were tried.

    `parting` is where the graph of a trace at a wrong size parts, None where no such trace could be had; `lines` are
    all lines at which it does, the likeliest first.
    """

    symbols: tuple[str, ...]
    shown: SizeTried
    parting: GraphDivergence | None
    lines: list[Line]
    wrong: list[Mapping[str, int]]
    right: list[Mapping[str, int]]
    dims: str  # where the symbols stand, and the shapes that are shown, for the contract may have no symbols there
    shapes: str

    @property
    def line(self) -> Line | None:
        return next(iter(self.lines), None)


def compare(target: Target, groups: Groups, wanted: Mapping[str, WantedSizes], budget: Budget) -> list[SizeTried]:
    """One symbol after the other around the example, then several together. What is wanted bounds what is tried."""
    trial = _Trial(target, groups, budget)
    columns = [_sizes_of(symbol, groups, wanted.get(symbol)) for symbol in groups.symbols]
    for sizes in _in_turn(columns):
        trial.run(sizes)
    for sizes in _corners(groups, trial.tried):
        trial.run(sizes)
    trial.say_what_was_left()
    return trial.tried


def small(groups: Groups, known: Iterable[Mapping[str, int]]) -> list[dict[str, int]]:
    """The small sizes of each symbol beside the example's of the others, without those that are known."""
    given = [dict(one) for one in known]
    steps = [
        (symbol, size)
        for size in range(1, _SMALL_MAX + 1)
        for symbol in groups.symbols
        if (size - groups.example[symbol]) % groups.step(symbol) == 0
    ]
    points = [{**groups.example, symbol: size} for symbol, size in steps]
    return [point for point in points if point not in given and point != groups.example]


def at(target: Target, groups: Groups, points: Iterable[Mapping[str, int]], budget: Budget) -> list[SizeTried]:
    """At these very sizes."""
    trial = _Trial(target, groups, budget)
    for sizes in points:
        trial.run(sizes)
    trial.say_what_was_left()
    return trial.tried


def baked(target: Target, groups: Groups, tried: Sequence[SizeTried], budget: Budget) -> list[BakedSize]:
    """The symbols whose sizes the trace keeps, each with its line."""
    blamed: dict[tuple[str, ...], list[SizeTried]] = {}
    for one in (one for one in tried if one.is_wrong and _changed(one, groups)):
        blamed.setdefault(_changed(one, groups), []).append(one)
    # Of several together only where none of them is wrong by itself.
    alone = {symbols[0] for symbols in blamed if len(symbols) == 1}
    chosen = {symbols: wrong for symbols, wrong in blamed.items() if len(symbols) == 1 or not alone & set(symbols)}
    blaming = _Blaming(target, groups, budget)
    return [blaming.of(symbols, wrong, tried) for symbols, wrong in chosen.items()]


class _Trial:
    """Calls of other sizes, each once."""

    def __init__(self, target: Target, groups: Groups, budget: Budget) -> None:
        self.tried: list[SizeTried] = []
        self._target = target
        self._groups = groups
        self._budget = budget
        self._left: dict[str, None] = {}

    def run(self, sizes: Mapping[str, int]) -> None:
        full = {**self._groups.example, **sizes}
        if any(one.sizes == full for one in self.tried) or self._is_settled(sizes):
            return
        if not self._groups.is_affordable(self._target.call, sizes):
            return
        if self._budget.is_spent:
            self._left |= dict.fromkeys(sizes)
            return
        call = self._groups.resized(self._target.call, sizes, self._target.seed + len(self.tried))
        self.tried.append(self._tried(full, call))

    def say_what_was_left(self) -> None:
        if self._left:
            self._budget.leave_out(f"more sizes of {', '.join(self._left)}")

    def _is_settled(self, sizes: Mapping[str, int]) -> bool:
        """Whether the symbol was wrong wherever it was tried."""
        if len(sizes) != 1:
            return False
        ((symbol, _),) = sizes.items()
        of_it = [one for one in self.tried if _changed(one, self._groups) == (symbol,)]
        return sum(one.is_wrong for one in of_it) >= _WRONG_MAX and not any(one.agrees for one in of_it)

    def _tried(self, sizes: Mapping[str, int], call: Call) -> SizeTried:
        target = self._target
        try:
            eager = target.eager.answer(
                call, within_s=min(target.call_s, max(self._budget.left_s, CALL_LIMITS.resized_least_s))
            )
        except ModelRaised as error:
            return SizeTried(sizes, call, "refused", error=error)
        except TooSlow:
            return SizeTried(sizes, call, "too-slow")
        after = self._after(eager)
        try:
            artifact = call_artifact(target.artifact, call, target.seed)
        except Exception as error:  # noqa: BLE001 - TorchScript raises of every kind
            return SizeTried(sizes, call, "raised", error=error, after=after)
        found = compared(eager.outputs, artifact.outputs, target.tolerance).difference
        if found is None:
            return SizeTried(sizes, call, "agrees", after=after)
        if not target.eager.is_repeatable(call, eager, tolerance=target.tolerance, within_s=target.call_s):
            return SizeTried(sizes, call, "unsure")
        return SizeTried(sizes, call, "differs", difference=found, after=after)

    def _after(self, eager: Answer) -> Difference | None:
        target = self._target
        if not eager.left_state or eager.drew or any(one.after for one in self.tried):
            return None
        try:
            again = target.eager.answer_again(target.call, within_s=target.call_s)
        except ModelRaised as error:
            return Difference(
                "output", f"the first call gives an answer, and one after other sizes raises: {error.detail}"
            )
        except TooSlow:
            return None
        sides = ("the first call", "one after other sizes")
        return compared(target.example.outputs, again.outputs, target.tolerance, sides=sides).difference


class _Blaming:
    """Traces at sizes where the artifact is wrong: where their graphs part from the example's stands the line."""

    def __init__(self, target: Target, groups: Groups, budget: Budget) -> None:
        self._target = target
        self._groups = groups
        self._budget = budget

    def of(self, symbols: tuple[str, ...], wrong: Sequence[SizeTried], tried: Sequence[SizeTried]) -> BakedSize:
        right = [one.sizes for one in tried if one.agrees and _changed(one, self._groups) == symbols]
        shown, partings = self._shown(wrong)
        line = None if partings else _line_of(shown)
        return BakedSize(
            symbols,
            shown,
            partings[0] if partings else None,
            [line] if line else _lines(partings),
            [one.sizes for one in wrong],
            right,
            dims=" and ".join(self._groups.dims_of(symbol) for symbol in symbols),
            shapes=self._groups.shapes_of(symbols, shown.sizes),
        )

    def _shown(self, wrong: Sequence[SizeTried]) -> tuple[SizeTried, list[GraphDivergence]]:
        for shown in sorted(wrong, key=self._distance)[:_RETRACES_MAX]:
            if partings := self._partings(shown):
                return shown, partings
        return wrong[0], []

    def _distance(self, one: SizeTried) -> tuple[bool, int]:
        """At size 1 much is otherwise that is not at fault."""
        return 1 in one.sizes.values(), sum(abs(size - self._groups.example[name]) for name, size in one.sizes.items())

    def _partings(self, shown: SizeTried) -> list[GraphDivergence]:
        target = self._target
        if target.retrace is None:
            return []
        if self._budget.is_spent:
            self._budget.leave_out(f"the line that baked the size of {', '.join(_changed(shown, self._groups))}")
            return []
        try:
            with time_limit(max(self._budget.left_s, CALL_LIMITS.line_trace_s)):
                there = canonical(target.traced_again(shown.call), target.method)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code, and torch's tracer of it
            return []
        found = difference(target.graph, there, limit=_PARTINGS_MAX)
        return sorted(found, key=lambda parting: not self._is_the_size(parting, shown))

    def _is_the_size(self, parting: GraphDivergence, shown: SizeTried) -> bool:
        """Whether a constant was the example's size and became the other one: before what only follows from it."""
        pairs = {(str(self._groups.example[symbol]), str(shown.sizes[symbol])) for symbol in shown.sizes}
        return parting.kind != "wiring" and (parting.kind == "struct" or (parting.was, parting.is_) in pairs)


def _changed(one: SizeTried, groups: Groups) -> tuple[str, ...]:
    return tuple(symbol for symbol, size in one.sizes.items() if size != groups.example[symbol])


def _lines(partings: Iterable[GraphDivergence]) -> list[Line]:
    return [*dict.fromkeys(line for parting in partings if (line := parting.origin) is not None)]


def _line_of(one: SizeTried) -> Line | None:
    """Of what the artifact raised: TorchScript shows the stack that led to the node."""
    return None if one.error is None else user_lines.of_stack(user_lines.whole_text_of(one.error))


def _in_turn(columns: Sequence[Sequence[Mapping[str, int]]]) -> Iterator[Mapping[str, int]]:
    """So that each symbol has had its first sizes before one has all of its."""
    for row in zip_longest(*columns):
        yield from (sizes for sizes in row if sizes is not None)


def _sizes_of(symbol: str, groups: Groups, wanted: WantedSizes | None) -> list[Mapping[str, int]]:
    example, step = groups.example[symbol], groups.step(symbol)
    usual = [*_usual(example, step), *_around(groups.edges.get(symbol, []))]
    sizes = usual if wanted is None else _of_wanted(example, usual, wanted)
    return [{symbol: size} for size in dict.fromkeys(sizes) if size > 0 and size != example]


def _usual(example: int, step: int) -> list[int]:
    near = [example + step, example - step]
    if step == 1:
        return [*near, *_ALONE[:1], 2 * example + 1, *_ALONE[1:], example // 2, 2 * example]
    smallest = example % step or step
    half = example // 2 - (example // 2 - example) % step
    return [*near, smallest, 2 * example + step - example % step, example + 3 * step, half, smallest + step]


def _around(edges: Sequence[int]) -> list[int]:
    """Where the model may do another thing: at what it compares a size with, and beside."""
    return [edge + beside for edge in edges[:_EDGES_MAX] for beside in (0, 1, -1)]


def _of_wanted(example: int, usual: Sequence[int], wanted: WantedSizes) -> list[int]:
    """Its ends, what is next to them, and what the usual ones come to in it."""
    last = wanted.high - (wanted.high - wanted.low) % wanted.step
    middle = wanted.low + (last - wanted.low) // 2 // wanted.step * wanted.step
    ends = [wanted.low, last, wanted.low + wanted.step, last - wanted.step, middle]
    near = [example + wanted.step, example - wanted.step, *usual]
    return [size for size in [*ends, *near] if wanted.low <= size <= last and (size - wanted.low) % wanted.step == 0]


def _cheap(sizes: Sequence[int], example: int) -> list[int]:
    """Large sizes of several symbols are multiplied."""
    return [size for size in sizes if size <= max(_CORNER_SIZE, _CORNER_TIMES_EXAMPLE * example)] or [*sizes]


def _corners(groups: Groups, tried: Sequence[SizeTried]) -> list[dict[str, int]]:
    """Several symbols together, at the ends of what was right of each alone."""
    ends: dict[str, list[int]] = {}
    for one in tried:
        symbols = _changed(one, groups)
        if one.agrees and len(symbols) == 1:
            ends.setdefault(symbols[0], []).append(one.sizes[symbols[0]])
    ends = {symbol: _cheap(sizes, groups.example[symbol]) for symbol, sizes in ends.items()}
    least = {symbol: min(sizes) for symbol, sizes in ends.items()}
    most = {symbol: max(sizes) for symbol, sizes in ends.items()}
    first = {symbol: sizes[0] for symbol, sizes in ends.items()}
    if len(ends) < 2:
        return []
    mixed = [{**base, symbol: other[symbol]} for base, other in ((least, most), (most, least)) for symbol in ends]
    pairs = [{symbol: first[symbol] for symbol in pair} for pair in combinations(ends, 2)]
    return [first, least, most, *mixed, *pairs][:_CORNERS_MAX]
