"""A body's time: each byte prolongs it, and no body lasts for ever below the least rate."""

import pytest

from service.api.http.least_rate import LeastRate


def seconds_until_over(
    rate: LeastRate, *, bytes_at_once: int, every_s: float, at_most_s: float = 10_000
) -> float | None:
    """Return how long a body lasts of which so many bytes come in such intervals; None if it lasts that long."""
    passed_s = 0.0
    while passed_s < at_most_s:
        rate.wait(every_s)
        passed_s += every_s
        if rate.left_s <= 0:
            return passed_s
        rate.receive(bytes_at_once)
    return None


def test_a_body_of_which_nothing_arrives_is_over_after_the_grace() -> None:
    assert seconds_until_over(LeastRate(1000, grace_s=30), bytes_at_once=0, every_s=1) == 30


@pytest.mark.parametrize(("bytes_at_once", "every_s"), [(1, 0.1), (1, 1), (1, 29), (999, 3)])
def test_a_body_that_dribbles_is_over_soon_after_the_grace(bytes_at_once: int, every_s: float) -> None:
    lasted_s = seconds_until_over(LeastRate(1000, grace_s=30), bytes_at_once=bytes_at_once, every_s=every_s)

    assert lasted_s is not None
    assert 30 <= lasted_s <= 60


@pytest.mark.parametrize(("bytes_at_once", "every_s"), [(101, 0.1), (1000, 1), (20_000, 20), (1_000_000, 29)])
def test_a_body_at_the_least_rate_is_never_over(bytes_at_once: int, every_s: float) -> None:
    assert seconds_until_over(LeastRate(1000, grace_s=30), bytes_at_once=bytes_at_once, every_s=every_s) is None


def test_what_came_fast_does_not_pay_for_a_long_pause() -> None:
    rate = LeastRate(1000, grace_s=30)
    rate.receive(10**9)

    assert seconds_until_over(rate, bytes_at_once=1, every_s=1) == 31
