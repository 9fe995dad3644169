"""Many sizes: what calls of many sizes leave in the model, one after another.

A model may keep something of each size, such as a mask, and go another way once it has kept many.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference
from tracehouse.eager.call import Call
from tracehouse.errors import ModelRaised

_CALLS_MAX = 48  # a choice


def find_effect_of_many_sizes(target: Target, groups: Groups, budget: Budget) -> Difference | None:
    """Return how calls of many sizes change a later answer; None if they do not, or if no call leaves anything.

    They are left out if the budget is too small for them.
    """
    if not target.eager.has_left_state:
        return None
    calls = [*islice(_make_calls(target, groups), _CALLS_MAX)]
    if len(calls) * target.example_s > budget.left_s:
        budget.leave_out("what calls of many sizes leave in the model, one after another")
        return None
    with suppress(ModelRaised, TooSlow):
        return target.eager.find_effect_of_many(calls, target.call, tolerance=target.tolerance)
    return None


def _make_calls(target: Target, groups: Groups) -> Iterator[Call]:
    """Yield calls in which one symbol has another size, each time a larger one."""
    for number in range(1, _CALLS_MAX + 1):
        for symbol, size in groups.example.items():
            sizes = {symbol: size + number * groups.step(symbol)}
            if groups.is_affordable(target.call, sizes):
                yield groups.resize(target.call, sizes, target.seed + number)
