"""Trials of other orders of keys: which dicts must come with their keys in the order of the example."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tracehouse.contract.key_orders import KeyOrder
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference

# How many fresh inputs the orders are tried on beside the example, and how many are drawn, for the eager model may
# refuse some.
ROUNDS_MOST, ROUNDS_DRAWN = 2, 4
# The part of the check's budget in which all orders together are tried.
ORDERS_SHARE_OF_BUDGET = 0.2
# How many dicts of one method are tried. Chosen.
DICTS_TRIED_MAX = 8

ORDER_NAMES = ("the order of the example", "the other one")

# Returns what another order changes in the eager model's answer; None if it changes nothing.
FindChange = Callable[[KeyOrder], str | None]


@dataclass(frozen=True)
class FixedOrder:
    """An order of keys that the contract fixes, and why."""

    order: KeyOrder
    reason: str


def find_fixed_orders(orders: Iterable[KeyOrder], find_change: FindChange, budget: Budget) -> list[FixedOrder]:
    """Return the orders on which the eager model's answer depends, and those for which no other order was tried."""
    fixed = []
    for place, order in enumerate(orders):
        reason: str | None = "no other order was tried, because there are too many dicts"
        if place < DICTS_TRIED_MAX:
            reason = _find_reason(order, find_change, budget)
        if reason is not None:
            fixed.append(FixedOrder(order, reason))
    return fixed


def describe_difference(order: KeyOrder, difference: Difference) -> str:
    """Return in words what another order changes in an answer."""
    return f"in the order {order}, {difference.leaf!r} changes: {difference.what}"


def describe_refusal(order: KeyOrder, detail: str) -> str:
    """Return in words how the eager model refuses another order."""
    return f"in the order {order}, the eager model refuses it: {detail}"


def _find_reason(order: KeyOrder, find_change: FindChange, budget: Budget) -> str | None:
    for other in order.other_orders():
        if budget.is_spent:
            return "there was no time left to try another order"
        if (change := find_change(other)) is not None:
            return change
    return None
