"""What a budget's name is in seconds, by how long the model's first call took."""

import pytest

from tracehouse.differential.named_budgets import MOST_S, budget_class, budget_seconds, first_budget_s
from tracehouse.spec.trace_spec import BudgetName, CheckOptions


def seconds(name: BudgetName, call_s: float, most_s: float = MOST_S) -> float:
    return budget_seconds(CheckOptions(budget=name), call_s, most_s)


@pytest.mark.parametrize(("name", "small_s", "slow_s"), [("quick", 3, 13), ("normal", 15, 65), ("deep", 120, 600)])
def test_a_budget_fits_the_model(name: BudgetName, small_s: float, slow_s: float) -> None:
    assert (seconds(name, 0.0), seconds(name, 0.5)) == (small_s, slow_s)


def test_seconds_that_were_given_stand_as_they_are() -> None:
    given = CheckOptions(budget_s=7.0)

    assert budget_seconds(given, 100.0, most_s=1.0) == first_budget_s(given) == 7.0


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (CheckOptions(), "normal"),
        (CheckOptions(budget="quick"), "quick"),
        (CheckOptions(budget="deep"), "deep"),
        (CheckOptions(budget_s=0.1), "normal"),
        (CheckOptions(budget_s=119.0), "normal"),
        (CheckOptions(budget_s=120.0), "deep"),
    ],
)
def test_seconds_count_as_the_name_that_a_small_model_gets_as_many_for(check: CheckOptions, name: BudgetName) -> None:
    assert budget_class(check) == name


def test_a_named_budget_leaves_time_for_the_rest_of_the_request() -> None:
    assert seconds("deep", 1.0, most_s=200.0) == seconds("normal", 100.0, most_s=200.0) == 200.0


def test_a_default_check_has_never_less_than_it_had_before_budgets_had_names() -> None:
    assert seconds("normal", 0.0, most_s=0.0) == seconds("deep", 0.0, most_s=1.0) == 15.0
    assert seconds("quick", 0.0, most_s=0.0) == 3.0


def test_a_quick_check_stops_no_first_call_that_a_normal_one_lets_end() -> None:
    quick, normal = CheckOptions(budget="quick"), CheckOptions()

    assert first_budget_s(quick) == first_budget_s(normal) == 15.0
