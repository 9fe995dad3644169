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
    """An order of keys that the contract fixes, and why. `is_shown`: another order was seen to change the answer."""

    order: KeyOrder
    reason: str
    is_shown: bool = False


def find_fixed_orders(orders: Iterable[KeyOrder], find_change: FindChange, budget: Budget) -> list[FixedOrder]:
    """Return the orders on which the eager model's answer depends, and those for which no other order was tried."""
    fixed = []
    for place, order in enumerate(orders):
        if place >= DICTS_TRIED_MAX:
            fixed.append(FixedOrder(order, "no other order was tried, because there are too many dicts"))
        elif (found := _try_orders(order, find_change, budget)) is not None:
            fixed.append(found)
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


def _try_orders(order: KeyOrder, find_change: FindChange, budget: Budget) -> FixedOrder | None:
    for other in order.other_orders():
        if budget.is_spent:
            return FixedOrder(order, "there was no time left to try another order")
        if (change := find_change(other)) is not None:
            return FixedOrder(order, change, is_shown=True)
    return None
