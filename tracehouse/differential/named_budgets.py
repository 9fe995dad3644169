"""Named budgets: how many seconds `quick`, `normal` and `deep` are for a model, by how long its first call took.

A check calls, traces and proves the model many times. So a model whose call takes a second needs more time than one
whose call takes a millisecond, for the same contract.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tracehouse.spec.trace_spec import BudgetName, CheckBudget, CheckOptions

# No name stands for more seconds: whoever wants more names the seconds. Chosen: the usual limit of a whole request.
MOST_S = 600.0


@dataclass(frozen=True)
class NamedBudget:
    """So many seconds of processor time, and so many times as long as the first call on the example took."""

    least_s: float
    calls: int


# Chosen. In 15 s the check of a usual model ends by itself, and before budgets had names it was the default; a check
# makes some hundred calls and traces. In 3 s the common operators are proven. What 120 s cut, more time hardly mends.
BUDGETS: Mapping[BudgetName, NamedBudget] = {
    "quick": NamedBudget(3.0, 20),
    "normal": NamedBudget(15.0, 100),
    "deep": NamedBudget(120.0, 1000),
}
_NORMAL_S = BUDGETS["normal"].least_s


def budget_class(check: CheckBudget) -> BudgetName:
    """Return the name of the budget. Seconds that were given are `deep` from those on that `deep` is at least.

    Fewer seconds are `normal`, never `quick`: they say nothing of how long a model takes to load.
    """
    if check.budget is not None:
        return check.budget
    assert check.budget_s is not None  # the parser makes sure of it
    return "deep" if check.budget_s >= BUDGETS["deep"].least_s else "normal"


def budget_seconds(check: CheckOptions, call_s: float, most_s: float = MOST_S) -> float:
    """Return the check's limit in seconds of processor time, if the first calls on the examples took `call_s` seconds.

    Seconds that were given stand as they are. A name is at most `most_s` seconds, but never less than a small model
    gets by default, or than `quick` is.
    """
    if check.budget is None:
        assert check.budget_s is not None  # the parser makes sure of it
        return check.budget_s
    named = BUDGETS[check.budget]
    return max(min(named.least_s, _NORMAL_S), min(named.least_s + named.calls * call_s, most_s, MOST_S))


def first_budget_s(check: CheckOptions) -> float:
    """Return the seconds by which the first call itself is limited, when nobody knows yet how long it takes.

    They only stop a model that never ends, so `quick` has as many here as `normal`.
    """
    return max(budget_seconds(check, 0.0), 0.0 if check.budget is None else _NORMAL_S)
