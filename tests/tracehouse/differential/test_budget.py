"""The budget counts processor time, within limits that the clock sets."""

import pytest

from tracehouse.differential import budget
from tracehouse.differential.budget import PATIENCE, Budget


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stood_s = 0.0
        self.processor_s = 0.0

    def read(self) -> float:
        return self.now

    def pass_by(self, seconds: float, *, processor_s: float) -> None:
        self.now += seconds
        self.processor_s += processor_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(budget, "CLOCK", clock)
    return clock


def make(clock: Clock, seconds: float = 10) -> Budget:
    return Budget(seconds, processor_s=lambda: clock.processor_s)


def test_on_a_busy_machine_only_processor_time_counts(clock: Clock) -> None:
    spent = make(clock)
    clock.pass_by(9, processor_s=3)
    assert (spent.processor_s, spent.left_s, spent.is_spent) == (3, 7, False)


def test_work_that_only_waits_ends_too(clock: Clock) -> None:
    spent = make(clock)
    clock.pass_by(10 * PATIENCE, processor_s=0)
    assert spent.is_spent


def test_a_process_that_stands_still_has_its_time_left(clock: Clock) -> None:
    spent = make(clock)
    clock.stood_s += 100
    assert spent.left_s == 10


def test_it_may_not_stand_still_for_ever(clock: Clock) -> None:
    spent = make(clock)
    clock.stood_s += 10_000
    assert spent.is_spent


def test_several_processors_at_once_count_as_the_clock_does(clock: Clock) -> None:
    spent = make(clock)
    clock.pass_by(4, processor_s=16)
    assert (spent.processor_s, spent.left_s) == (4, 6)


def test_a_share_counts_the_same_time_and_lists_in_the_same_place(clock: Clock) -> None:
    spent = make(clock)
    clock.pass_by(2, processor_s=2)
    share = spent.share(0.5)
    clock.pass_by(8, processor_s=3)
    assert (share.seconds, share.left_s) == (4, 1)
    share.leave_out("size 7")
    assert (spent.is_cut, spent.left_out()) == (True, ["size 7"])
