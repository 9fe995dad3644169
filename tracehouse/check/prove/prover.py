"""Proving: case after case, until the wanted sizes are covered, nothing more comes of it, or the time is over."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tracehouse.check.prove.interpreter import Program
from tracehouse.check.prove.size_grid import Evaluation, Grid, Mask, NotEvaluated, Sizes
from tracehouse.check.prove.symbolic_case import Cases, Outcome
from tracehouse.check.prove.symbols import LEAST
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import alarm
from tracehouse.contract.regions import Region
from tracehouse.differential.budget import Budget
from tracehouse.introspection import user_lines

CASES_MAX = 24
BAD_CASES_MAX = 3  # that were refuted or remained open: more of them tell little
REFUSED_CASES_MAX = 6
_AGAIN_S = 0.1
_LEFT_SHOWN = 2
# What ends a proof before all sizes are covered.
_BAD = f"{BAD_CASES_MAX} of which came to nothing"
_REFUSED = f"{REFUSED_CASES_MAX} of which the model refused"
_NARROW = "each of which holds for few sizes"
_SETTLED_ENOUGH = 3


@dataclass(frozen=True)
class Refuted:
    """A call of these sizes was answered otherwise by the artifact than by eager; the line is where they part."""

    sizes: Sizes
    line: user_lines.Line | None
    operator: str
    what: str


@dataclass(frozen=True)
class Unproven:
    """From these sizes on no proof was found; at these themselves both agreed, where they could be asked."""

    sizes: Sizes
    line: user_lines.Line | None
    why: str


@dataclass(frozen=True)
class Threshold:
    """A condition of the sizes, and sizes on both sides of it."""

    condition: str
    line: user_lines.Line | None
    holds: Sizes
    fails: Sizes


@dataclass(frozen=True)
class Proof:
    """What is known of the wanted sizes, counted in points.

    `alike` is proven under the condition that the model computes on real tensors what it computes on tensors without
    values, where it was seen to take another path: it is not in `regions`.
    """

    regions: list[Region]
    alike: list[Region]
    points: int
    proven: int
    refused: int
    refuted_points: int
    uncovered: int
    refuted: list[Refuted] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    thresholds: list[Threshold] = field(default_factory=list)
    tries: list[Sizes] = field(default_factory=list)  # at the borders of the cases
    cases: int = 0


class _Over(BaseException):
    """The time is. Not an Exception, so that no model takes it for its own."""


def prove(
    target: Target,
    groups: Groups,
    wanted: Mapping[str, Sequence[int]],
    budget: Budget,
    harmless: Collection[user_lines.Line] = (),
) -> Proof:
    """That the artifact computes what eager does, for as many of the wanted sizes as can be shown.

    `harmless` are lines that read values, and of which it is known that these change nothing.
    """
    proving = _Proving(target, groups, wanted, budget)
    try:
        program = Program(target.artifact, target.method)
    except Exception as error:  # noqa: BLE001 - a graph that cannot be read
        proving.give_up(f"the artifact's graph cannot be read: {error}")
        return proving.proof()
    try:
        proving.go_on(Cases(target, groups, program, harmless))
    finally:
        target.model.shared.restore()
    return proving.proof()


class _Proving:
    def __init__(self, target: Target, groups: Groups, wanted: Mapping[str, Sequence[int]], budget: Budget) -> None:
        self._target = target
        self._groups = groups
        self._budget = budget
        self._grid = Grid({symbol: wanted.get(symbol, [size]) for symbol, size in groups.example.items()})
        self._proven, self._alike, self._refused, self._bad = (self._grid.none() for _ in range(4))
        self._left = self._grid.all()
        self._outcomes: list[Outcome] = []
        self._refuted: list[Refuted] = []
        self._unproven: list[Unproven] = []
        self._thresholds: dict[tuple[str, user_lines.Line | None], Threshold] = {}
        self._tries: list[Sizes] = []

    def go_on(self, cases: Cases) -> None:
        while self._left.any() and self._limit() is None:
            sizes = self._next()
            outcome = self._case(cases, sizes)
            if outcome is None:
                return
            self._outcomes.append(outcome)
            self._take(outcome)
            if outcome.carries:
                self._void()
                return
        limit = self._limit()
        if self._left.any() and limit is not None:
            self._say_what_is_left(limit)

    def _say_what_is_left(self, limit: str) -> None:
        if limit == _BAD and any(outcome.ends == "unproven" for outcome in self._outcomes):
            return  # "from these sizes on" says it
        first = self._grid.nearest(self._left, self._groups.example)
        left = self._grid.regions(self._left, "observed")
        more = " and others" if len(left) > _LEFT_SHOWN else ""
        why = f"the proof ended after {len(self._outcomes)} runs, {limit}; left are "
        self._note(Unproven(first, None, why + "; ".join(map(str, left[:_LEFT_SHOWN])) + more))

    def _void(self) -> None:
        self._bad |= self._proven | self._alike
        self._proven, self._alike = self._grid.none(), self._grid.none()

    def give_up(self, why: str) -> None:
        self._unproven.append(Unproven(dict(self._groups.example), None, why))

    def proof(self) -> Proof:
        return Proof(
            self._grid.regions(self._proven, "proven"),
            self._grid.regions(self._alike, "sampled"),
            points=self._left.size,
            proven=int(self._proven.sum()),
            refused=int(self._refused.sum()),
            refuted_points=int(self._bad.sum()),
            uncovered=int(self._left.sum()),
            refuted=self._refuted,
            unproven=self._unproven,
            thresholds=list(self._thresholds.values()),
            tries=self._tries,
            cases=len(self._outcomes),
        )

    def _limit(self) -> str | None:
        """What more cases would be too many."""
        ends = [outcome.ends for outcome in self._outcomes]
        if sum(end in ("refuted", "unproven") for end in ends) >= BAD_CASES_MAX:
            return _BAD
        if ends.count("refused") >= REFUSED_CASES_MAX:
            return _REFUSED
        return _NARROW if len(ends) >= CASES_MAX else None

    def _next(self) -> Sizes:
        """The example's first, then the nearest; farther off where the near ones lead to nothing."""
        bad = sum(outcome.ends in ("refuted", "unproven") for outcome in self._outcomes)
        return self._grid.nearest(self._left, {name: size << bad for name, size in self._groups.example.items()})

    def _case(self, cases: Cases, sizes: Sizes) -> Outcome | None:
        """None where the time is over."""
        free = {
            symbol: int(axis[-1])
            for symbol, axis in zip(self._grid.symbols, self._grid.axes, strict=True)
            if sizes[symbol] >= LEAST and len(axis) > 1 and not self._is_settled(symbol)
        }
        while not self._budget.is_spent:
            try:
                with _within(self._budget.share(0.5 if free else 1.0)):
                    call = self._groups.resized(self._target.call, sizes, self._target.seed)
                    return cases.case(call, sizes, free)
            except _Over:
                if not free:
                    break
                free.popitem()
            except Exception as error:  # noqa: BLE001 - whatever torch does not do without values
                self._unproven.append(
                    Unproven(sizes, None, f"{type(error).__name__}: {user_lines.shown_text_of(error)}")
                )
                return None
        self._unproven.append(Unproven(sizes, None, "there was no time left"))
        return None

    def _is_settled(self, symbol: str) -> bool:
        """Whether the last cases began with it, and ended with one size: as many runs are saved as try it once more."""
        last = self._outcomes[-_SETTLED_ENOUGH:]
        return len(last) == _SETTLED_ENOUGH and all(
            one.ends == "proven" and one.sizes[symbol] >= LEAST and symbol not in one.free for one in last
        )

    def _take(self, outcome: Outcome) -> None:
        covered = self._covered(outcome) & self._left
        covered |= self._grid.only(outcome.sizes) & self._left
        self._left &= ~covered
        self._tries += [sizes for sizes in self._grid.corners(covered) if sizes not in self._tries]
        match outcome.ends:
            case "proven":
                self._proven |= covered
            case "alike":
                self._alike |= covered
                self._note(Unproven(outcome.sizes, outcome.line, outcome.why))
            case "refused":
                self._refused |= covered
            case "refuted":
                self._bad |= covered
                self._refuted.append(Refuted(outcome.sizes, outcome.line, outcome.operator, outcome.why))
            case "unproven":
                self._bad |= covered
                self._note(Unproven(outcome.sizes, outcome.line, outcome.why))

    def _note(self, unproven: Unproven) -> None:
        if not any((other.why, other.line) == (unproven.why, unproven.line) for other in self._unproven):
            self._unproven.append(unproven)

    def _covered(self, outcome: Outcome) -> Mask:
        """The points at which the case would have gone the same way."""
        mask = self._grid.all()
        for symbol in self._grid.symbols:
            if symbol not in outcome.free:
                mask &= self._grid.sizes(symbol) == outcome.sizes[symbol]
        if outcome.symbols is None:
            return mask
        evaluation = Evaluation(self._grid, outcome.symbols.names)
        try:
            for condition in outcome.conditions:
                holds = evaluation.holds(condition.expression)
                self._note_threshold(outcome.symbols.told(str(condition.expression)), condition.line, holds, mask)
                mask = mask & holds
            for first, second in outcome.alike:
                mask = mask & evaluation.alike(first, second)
        except NotEvaluated:
            return self._grid.only(outcome.sizes)
        return mask

    def _note_threshold(self, text: str, line: user_lines.Line | None, holds: Mask, mask: Mask) -> None:
        fails = mask & ~holds
        if line is None or not fails.any() or (text, line) in self._thresholds:
            return
        inside = mask & holds
        if not inside.any():
            return
        outside = self._grid.nearest(fails, self._groups.example)
        self._thresholds[text, line] = Threshold(text, line, self._grid.nearest(inside, outside), outside)


def _within(budget: Budget) -> AbstractContextManager[None]:
    def stop() -> None:
        if budget.is_spent:
            raise _Over

    # The alarm rings again and again, because torch may drop an exception where it calls Python back.
    return alarm(max(budget.left_s, 0.001), stop, again_s=_AGAIN_S)
