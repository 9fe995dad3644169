"""Trials of other orders of keys."""

from tracehouse.contract.key_orders import KeyOrder
from tracehouse.differential.budget import Budget
from tracehouse.differential.key_order_trials import DICTS_TRIED_MAX, find_fixed_orders

LONG_S = 600.0


def changes_nothing(_: KeyOrder) -> str | None:
    return None


def orders(number: int) -> list[KeyOrder]:
    return [KeyOrder(path=f"d{place}", keys=["a", "b"]) for place in range(number)]


def test_an_order_that_changes_nothing_is_free() -> None:
    assert find_fixed_orders(orders(2), changes_nothing, Budget(LONG_S)) == []


def test_an_order_for_which_there_was_no_time_is_fixed() -> None:
    [fixed] = find_fixed_orders(orders(1), changes_nothing, Budget(0.0))

    assert "no time" in fixed.reason


def test_of_too_many_dicts_the_last_are_fixed() -> None:
    fixed = find_fixed_orders(orders(DICTS_TRIED_MAX + 2), changes_nothing, Budget(LONG_S))

    assert [one.order.path for one in fixed] == [f"d{DICTS_TRIED_MAX}", f"d{DICTS_TRIED_MAX + 1}"]


def test_every_key_and_every_pair_is_moved_in_some_order() -> None:
    keys = ["a", "b", "c"]
    tried = [one.keys for one in KeyOrder(path="d", keys=keys).other_orders()]

    assert all(any(other[place] != key for other in tried) for place, key in enumerate(keys))
    assert ["c", "b", "a"] in tried
