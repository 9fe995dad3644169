"""Trials of other orders of keys: which dicts must come with their keys in the order of the example."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from tracehouse.contract.key_orders import KeyOrder
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import Difference

# How many fresh inputs the orders are tried on beside the example, and how many are drawn, for the eager model may
# refuse some.
_ROUNDS_MOST, _ROUNDS_DRAWN = 2, 4
# The part of the check's budget in which all orders together are tried.
ORDERS_SHARE_OF_BUDGET = 0.2
# How many dicts of one method are tried. Chosen.
DICTS_TRIED_MAX = 8

ORDER_NAMES = ("the order of the example", "the other one")

# Returns what another order changes in the eager model's answer; None if it changes nothing.
FindChange = Callable[[KeyOrder], str | None]
_Inputs = TypeVar("_Inputs")
_Answer = TypeVar("_Answer")


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


class KeyOrderTrials(Generic[_Inputs, _Answer]):
    """Calls of the eager model with the keys of a dict in another order, on the example and on a few fresh inputs.

    `ask` returns the answer to inputs with the keys in this order, or a text that says why there is none; None means
    the order of the example. `compare` returns how two answers differ.
    """

    def __init__(
        self,
        ask: Callable[[_Inputs, KeyOrder | None], _Answer | str],
        compare: Callable[[_Answer, _Answer], Difference | None],
        example: tuple[_Inputs, _Answer],
        fresh: Iterable[_Inputs],
    ) -> None:
        self._ask = ask
        self._compare = compare
        self._answered = [example, *islice(self._answer(islice(fresh, _ROUNDS_DRAWN)), _ROUNDS_MOST)]

    def find_change(self, order: KeyOrder) -> str | None:
        """Return what another order changes in the eager model's answer; None if it changes nothing."""
        for inputs, expected in self._answered:
            answer = self._ask(inputs, order)
            if isinstance(answer, str):
                return f"in the order {order}, the eager model refuses it: {answer}"
            difference = self._compare(expected, answer)
            if difference is not None:
                return f"in the order {order}, {difference.leaf!r} changes: {difference.what}"
        return None

    def _answer(self, fresh: Iterable[_Inputs]) -> Iterator[tuple[_Inputs, _Answer]]:
        """Yield the inputs that the eager model takes, with its answers."""
        for inputs in fresh:
            answer = self._ask(inputs, None)
            if not isinstance(answer, str):
                yield inputs, answer


def _find_reason(order: KeyOrder, find_change: FindChange, budget: Budget) -> str | None:
    for other in order.other_orders():
        if budget.is_spent:
            return "there was no time left to try another order"
        if (change := find_change(other)) is not None:
            return change
    return None
