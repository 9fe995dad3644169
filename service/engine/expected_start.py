"""When a waiting trace request is expected to begin: from how long others took lately, and what is before it.

It is an expectation, and no promise: how long a trace takes is known when it has ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapreplace
from random import Random
from statistics import fmean as mean

from tracehouse.spec.trace_spec import BudgetName

# With fewer, one odd model would be the whole expectation. Chosen.
_MEASURED_MIN = 3
# Beyond so many, the moments at which the slots come free do not matter any more.
_ONE_BY_ONE_MAX = 64
# So many times, it is tried out how long all takes. Chosen: what is measured differs more from what comes.
_DRAWN = 16


@dataclass(frozen=True)
class Running:
    """A request that has a slot; it has not begun yet if `began_at` is None."""

    budget: BudgetName
    began_at: datetime | None


@dataclass(frozen=True)
class Durations:
    """How many seconds requests of each budget took lately, and how many one may take."""

    measured: Mapping[BudgetName, Sequence[float]] = field(default_factory=dict)
    limits_s: Mapping[BudgetName, float] = field(default_factory=dict)

    def of(self, budget: BudgetName) -> Sequence[float] | None:
        """Return how long requests took; None if too few were measured."""
        measured = self.measured.get(budget, ())
        return measured if len(measured) >= _MEASURED_MIN else None

    def left(self, budget: BudgetName, elapsed_s: float) -> Sequence[float] | None:
        """Return how long requests went on that had run for a while; None if too few were measured.

        One that has run longer than all of them is expected to take all that it may.
        """
        measured = self.of(budget)
        if measured is None:
            return None
        longer = [seconds - elapsed_s for seconds in measured if seconds > elapsed_s]
        return longer or [max(0.0, self.limits_s.get(budget, elapsed_s) - elapsed_s)]


def expected_start(
    now: datetime, slots: int, running: Sequence[Running], ahead: Mapping[BudgetName, float], durations: Durations
) -> datetime | None:
    """Return when a request is expected to begin before which so many others wait; None if too few were measured.

    `ahead` counts those others by their budgets. The result is a whole second, because it is no more exact than that.
    """
    left = [durations.left(one.budget, _elapsed_s(one, now)) for one in running]
    each = {budget: durations.of(budget) for budget, count in ahead.items() if count}
    known_left = [one for one in left if one is not None]
    known_each = [(one, ahead[budget]) for budget, one in each.items() if one is not None]
    if not slots or len(known_left) < len(left) or len(known_each) < len(each):
        return None
    wait_s = _expected_wait_s(slots, known_left, known_each)
    start = now + timedelta(seconds=wait_s)
    return start + timedelta(microseconds=-start.microsecond % 1_000_000)


def _elapsed_s(one: Running, now: datetime) -> float:
    return 0.0 if one.began_at is None else max(0.0, (now - one.began_at).total_seconds())


def _expected_wait_s(
    slots: int, left: Sequence[Sequence[float]], each: Sequence[tuple[Sequence[float], float]]
) -> float:
    """Return the mean wait, if each request takes as long as some other one took.

    The mean of the durations would say too much where few take very long: such a one holds up one slot, and not all.
    """
    drawn = Random(0)  # the same every time: only what happens changes what is expected
    count = sum(number for _, number in each)
    if count > _ONE_BY_ONE_MAX:
        work_s = sum(number * mean(seconds) for seconds, number in each)
        return (sum(map(mean, left)) + work_s) / slots
    durations, weights = [seconds for seconds, _ in each], [number for _, number in each]
    return mean(
        _wait_s(
            [drawn.choice(one) for one in left] + [0.0] * (slots - len(left)),
            [drawn.choice(one) for one in drawn.choices(durations, weights, k=round(count))] if each else [],
            slots,
        )
        for _ in range(_DRAWN)
    )


def _wait_s(free_in: list[float], before: Sequence[float], slots: int) -> float:
    """Return when the next slot is free, after those before it have had one each."""
    free_in = sorted(free_in)[-slots:]
    for seconds in before:
        heapreplace(free_in, free_in[0] + seconds)
    return free_in[0]
