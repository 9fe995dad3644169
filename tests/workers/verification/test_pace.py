"""Pace: what a call of another size is going to take."""

from tracehouse.differential.budget import Budget
from workers.verification.pace import Pace

KNOWN_BYTES, OVERHEAD_S, KNOWN_S = 1000, 0.01, 1.01


def make_pace() -> Pace:
    """A call of 1,000 bytes took a second more than the quickest."""
    pace = Pace(Budget(100.0))
    pace.record(1, OVERHEAD_S)
    pace.record(KNOWN_BYTES, KNOWN_S)
    return pace


def test_a_larger_call_takes_more_than_in_proportion() -> None:
    pace = make_pace()

    assert not pace.has_time_for(4 * KNOWN_BYTES, within_s=4.0)
    assert pace.has_time_for(4 * KNOWN_BYTES, within_s=8.5)


def test_a_smaller_call_takes_less_in_proportion() -> None:
    pace = make_pace()

    assert not pace.has_time_for(KNOWN_BYTES, within_s=0.5)
    assert pace.has_time_for(KNOWN_BYTES // 4, within_s=0.3)
    assert not pace.has_time_for(KNOWN_BYTES // 4, within_s=0.2)


def test_there_is_no_time_beyond_the_budget() -> None:
    pace = Pace(Budget(0.5))
    pace.record(1, OVERHEAD_S)
    pace.record(KNOWN_BYTES, KNOWN_S)

    assert not pace.has_time_for(KNOWN_BYTES)
