"""State that each call changes: whether an answer can show it, now or in a thousand calls."""

import queue
from collections import defaultdict, deque
from enum import Enum
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import pytest
import torch

from tests.tracehouse.check.targets import Load
from tracehouse.check import state_trials
from tracehouse.check.instrumentation import hidden_state
from tracehouse.check.oracle import CallObservation, EagerOracle
from tracehouse.differential.call_limits import CallLimit, CallLimits
from tracehouse.eager.call import bind

X = torch.tensor([[0.5, 1.5, 2.0, 0.25], [1.0, 0.125, 0.75, 3.0]])
IDS = torch.tensor([1, 2, 3, 1])


@pytest.fixture(autouse=True)
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the trials of a model that ends its calls end."""
    ample = CallLimit(120.0, 30)
    monkeypatch.setattr(state_trials, "CALL_LIMITS", CallLimits(state_trial=ample, state_trials=ample))


def observe(load: Load, name: str, entrypoint: str, x: torch.Tensor = X) -> CallObservation:
    model = load(name, entrypoint)
    return EagerOracle(model, 0).observe(bind(model.module, "forward", "forward", (x,), {}))


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
        ("counts_in_many_holders", "Numbers", "calls"),
        ("counts_in_many_holders", "Integers", "calls"),
        ("counts_in_many_holders", "Text", "calls"),
        ("counts_in_many_holders", "Items", "calls"),
        ("counts_in_many_holders", "Keys", "calls"),
        ("counts_in_many_holders", "OfC", "calls"),
        ("counts_in_many_holders", "Default", "counts_in_many_holders.Default.forward.calls"),
        ("counts_in_many_holders", "OfAFunction", "counts_in_many_holders.OfAFunction.forward.calls"),
    ],
)
def test_state_that_a_later_answer_shows_is_carried(load: Load, name: str, entrypoint: str, state: str) -> None:
    (hidden,) = observe(load, name, entrypoint).hidden_states

    assert (hidden.name, hidden.effect) == (state, "harmful")
    assert hidden.line is not None


@pytest.mark.parametrize(
    ("name", "entrypoint", "x"),
    [
        ("counts_calls_and_compares", "Logs", X),
        ("keeps_what_shows_nowhere", "Gathers", X),
        ("keeps_what_shows_nowhere", "Remembers", X),
        ("keeps_what_shows_nowhere", "KeepsToANorm", IDS),
        ("keeps_what_shows_nowhere", "Averages", X),
        ("counts_in_many_holders", "LogsText", X),
        ("counts_in_many_holders", "LogsItems", X),
        ("counts_in_many_holders", "LogsNumbers", X),
        ("counts_in_many_holders", "LogsOfC", X),
    ],
)
def test_state_that_no_answer_shows_is_harmless(load: Load, name: str, entrypoint: str, x: torch.Tensor) -> None:
    seen = observe(load, name, entrypoint, x)

    assert seen.hidden_states == []
    assert [one.effect for one in seen.harmless_states] == ["harmless"]


@pytest.mark.parametrize(
    ("entrypoint", "state"),
    [
        ("Generator", "gains"),
        ("Draws", "generator"),
        ("Memory", "counts_in_many_holders.MEMORY"),
        ("Slots", "counts_in_many_holders.SLOTS"),
    ],
)
def test_state_that_cannot_be_tried_in_full_may_be_harmful(load: Load, entrypoint: str, state: str) -> None:
    (hidden,) = observe(load, "counts_in_many_holders", entrypoint).hidden_states

    assert (hidden.name, hidden.effect) == (state, "unknown")


def test_a_cache_that_the_first_call_fills_carries_nothing(load: Load) -> None:
    seen = observe(load, "caches_its_mask", "Net", torch.ones(4, 4))

    assert (seen.hidden_states, seen.harmless_states) == ([], [])


class Entry:
    """Refuses to be copied in the usual way."""

    def __copy__(self) -> "Entry":
        raise TypeError

    def __deepcopy__(self, memo: dict[int, object]) -> "Entry":
        return self


class Shade(Enum):
    LIGHT = 1


def made_log() -> "queue.Queue[int]":
    log: queue.Queue[int] = queue.Queue()
    log.put(1)
    return log


@pytest.mark.parametrize(
    "state", [[Entry()], [Shade.LIGHT, 1], {"a": [1, 2]}, [torch.Size([1])], defaultdict(int, a=1), made_log()]
)
def test_state_of_every_kind_is_judged_and_left_as_it_was(state: Any) -> None:
    before = repr(state)
    judged = hidden_state.judge_state(state, lambda value: [torch.ones(1)], list, lambda: False)

    assert judged.effect in ("harmless", "unknown")
    assert (repr(state), Shade.LIGHT.value) == (before, 1)


@pytest.mark.parametrize(
    "state", [[torch.Size([1])], [(1, None)], [b"x"], {"a": 1}, defaultdict(int, a=1), {"x"}, deque([1]), made_log()]
)
def test_how_much_a_state_holds_may_decide(state: Any) -> None:
    def run(value: Any) -> list[torch.Tensor]:
        return [torch.tensor(float((value.qsize() if isinstance(value, queue.Queue) else len(value)) > 3000))]

    assert hidden_state.judge_state(state, run, list, lambda: False).effect == "harmful"


def test_no_other_descriptor_is_tried_for_memory_that_processes_share() -> None:
    shared = SharedMemory(create=True, size=16)
    try:
        assert hidden_state.change_leaves([shared], lambda leaf: leaf + 1 if type(leaf) is int else leaf) == [shared]
    finally:
        shared.close()
        shared.unlink()
