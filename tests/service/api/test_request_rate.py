"""A key's requests come back evenly over the minute."""

from service.api.request_rate import Allowance, RequestRate


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_minutes_requests_may_come_at_once_and_then_one_each_share() -> None:
    clock = Clock()
    rate = RequestRate(clock)

    assert [rate.take("a", 6).remaining for _ in range(6)] == [5, 4, 3, 2, 1, 0]
    assert rate.take("a", 6) == Allowance(per_minute=6, remaining=0, reset_s=10, retry_after_s=10)
    clock.now += 9.5
    assert rate.take("a", 6).retry_after_s == 1
    clock.now += 0.5
    assert rate.take("a", 6).retry_after_s is None
    assert rate.take("a", 6).retry_after_s == 10


def test_waiting_as_long_as_was_said_is_enough() -> None:
    clock = Clock()
    rate = RequestRate(clock)
    for per_minute in (1, 7, 59, 600, 1_000_000):
        taken = [rate.take(str(per_minute), per_minute) for _ in range(min(per_minute, 1000))]
        assert all(allowance.retry_after_s is None for allowance in taken)
    refused = rate.take("1", 1)
    clock.now += refused.retry_after_s or 0
    assert rate.take("1", 1).retry_after_s is None


def test_after_a_quiet_minute_all_is_as_at_first() -> None:
    clock = Clock()
    rate = RequestRate(clock)
    first = rate.take("a", 3)
    clock.now += 3600
    assert rate.take("a", 3) == first


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    rate = RequestRate(clock)
    rate.take("a", 1)
    assert [rate.take("a", 1).retry_after_s for _ in range(3)] == [60, 60, 60]


def test_keys_do_not_count_for_each_other() -> None:
    rate = RequestRate(Clock())
    rate.take("a", 1)
    assert rate.take("b", 1).retry_after_s is None


def test_keys_that_are_not_used_any_more_are_forgotten() -> None:
    clock = Clock()
    rate = RequestRate(clock)

    for number in range(20_000):
        rate.take(f"th_{number}", 60)
        clock.now += 0.01

    assert rate.keys < 2_000
    for _ in range(60):
        last = rate.take("th_0", 60)
    assert (last.remaining, rate.take("th_0", 60).retry_after_s) == (0, 1)
