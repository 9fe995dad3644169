"""State that each call changes: whether an answer can show it, now or in a thousand calls."""

import pytest
import torch

from tests.tracehouse.check.traced import Load
from tracehouse.check.oracle import EagerOracle, Observed
from tracehouse.eager.call import bind

X = torch.tensor([[0.5, 1.5, 2.0, 0.25], [1.0, 0.125, 0.75, 3.0]])
IDS = torch.tensor([1, 2, 3, 1])


def observed(load: Load, name: str, entrypoint: str, x: torch.Tensor = X) -> Observed:
    model = load(name, entrypoint)
    return EagerOracle(model, 0).observed(bind(model.module, "forward", "forward", (x,), {}))


@pytest.mark.parametrize(
    ("name", "entrypoint", "state"),
    [
        ("counts_calls_and_compares", "Net", "calls"),
        ("counts_calls_and_compares", "Now", "calls"),
        ("counts_calls_and_compares", "Iterator", "numbers"),
        ("counts_calls_and_compares", "Steps", "steps"),
        ("counts_calls_to_sixty", "Net", "calls"),
        ("averages_over_calls", "Net", "mean"),
        ("averages_over_calls", "Last", "last"),
    ],
)
def test_state_that_a_later_answer_shows_is_carried(load: Load, name: str, entrypoint: str, state: str) -> None:
    (carried,) = observed(load, name, entrypoint).carried

    assert (carried.name, carried.effect) == (state, "harmful")
    assert carried.line is not None


@pytest.mark.parametrize(
    ("name", "entrypoint", "x"),
    [
        ("counts_calls_and_compares", "Logs", X),
        ("keeps_what_shows_nowhere", "Gathers", X),
        ("keeps_what_shows_nowhere", "Remembers", X),
        ("keeps_what_shows_nowhere", "KeepsToANorm", IDS),
        ("keeps_what_shows_nowhere", "Averages", X),
    ],
)
def test_state_that_no_answer_shows_is_harmless(load: Load, name: str, entrypoint: str, x: torch.Tensor) -> None:
    seen = observed(load, name, entrypoint, x)

    assert seen.carried == []
    assert [one.effect for one in seen.without_effect] == ["harmless"]


def test_a_cache_that_the_first_call_fills_carries_nothing(load: Load) -> None:
    seen = observed(load, "caches_its_mask", "Net", torch.ones(4, 4))

    assert (seen.carried, seen.without_effect) == ([], [])
