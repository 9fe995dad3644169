"""When a waiting request is expected to begin, and how good that is."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import mean

import pytest

from service.domain.trace_request import TraceRequest
from service.engine.expected_start import Durations, Running, expected_start
from service.engine.fair_order import FairOrder, Turn

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NORMAL = Durations({"normal": [8.0, 10.0, 12.0], "quick": [1.0, 2.0, 3.0]}, {"normal": 600.0})

NewRequest = Callable[..., TraceRequest]


def ran_for(seconds: float) -> Running:
    return Running("normal", NOW - timedelta(seconds=seconds))


def wait_s(slots: int, running: list[Running], ahead: dict[str, float], durations: Durations = NORMAL) -> float | None:
    expected = expected_start(NOW, slots, running, ahead, durations)  # type: ignore[arg-type]
    return None if expected is None else (expected - NOW).total_seconds()


def test_where_a_slot_is_free_it_begins_now() -> None:
    assert wait_s(2, [ran_for(3)], {}) == 0


def test_it_begins_in_no_second_that_is_over() -> None:
    now = NOW + timedelta(milliseconds=400)

    assert expected_start(now, 1, [], {}, NORMAL) == NOW + timedelta(seconds=1)


def test_what_runs_takes_as_long_as_those_that_took_longer() -> None:
    assert wait_s(1, [ran_for(0)], {}) == pytest.approx(10, abs=1)
    assert wait_s(1, [ran_for(9)], {}) == pytest.approx(2, abs=1)  # 10 and 12 took longer
    assert wait_s(1, [Running("normal", None)], {}) == pytest.approx(10, abs=1)


def test_what_runs_longer_than_any_that_was_measured_may_take_all_its_time() -> None:
    assert wait_s(1, [ran_for(13)], {}) == 587


def test_those_before_it_have_their_turns_in_the_slots_as_they_come_free() -> None:
    same = Durations({"normal": [10.0] * 3, "quick": [2.0] * 3}, {"normal": 600.0})
    assert wait_s(2, [ran_for(0), ran_for(8)], {"normal": 1}, same) == 10  # the second slot is free after 2 s and 12 s
    assert wait_s(2, [ran_for(0), ran_for(8)], {"normal": 2}, same) == 12
    assert wait_s(1, [], {"normal": 2}, same) == 20
    assert wait_s(4, [], {"normal": 400}, same) == 1000
    assert wait_s(1, [], {"normal": 2, "quick": 1}) == pytest.approx(22, abs=5)


@pytest.mark.parametrize("seconds", [[], [1.0, 2.0]])
def test_nothing_is_expected_while_too_few_were_measured(seconds: list[float]) -> None:
    few = Durations({"normal": seconds, "quick": [1.0] * 3})

    assert wait_s(1, [ran_for(0)], {}, few) is None
    assert wait_s(1, [], {"quick": 1, "normal": 1}, few) is None
    assert wait_s(1, [], {"quick": 1}, few) == 1, "what does not count is not missed"


def test_without_slots_nothing_is_expected() -> None:
    assert wait_s(0, [], {}) is None


def test_quick_ones_before_it_count_as_quick_ones(new_request: NewRequest) -> None:
    order = FairOrder(1)
    quick, deep = ({"check": {"budget": budget}} for budget in ("quick", "normal"))
    for members in (quick, quick, deep):
        request = new_request("theirs", **members)
        order.put(request.tenant, request.created_at, request.id, request.budget)
    order.begin(Turn("theirs", "runs", "normal", datetime.now(UTC)))
    mine, other = new_request("mine"), new_request("mine", **quick)
    for request in (mine, other):
        order.put(request.tenant, request.created_at, request.id, request.budget)

    first, second = (order.expected_start(request, NORMAL) for request in (mine, other))

    assert first is not None
    assert second is not None
    assert (second - first).total_seconds() == pytest.approx(10 + 2, abs=4), "one of mine, and the oldest of theirs"


@pytest.mark.parametrize("seed", range(5))
def test_it_is_right_on_the_average_also_where_durations_differ_much(new_request: NewRequest, seed: int) -> None:
    """Three tenants, three slots, and requests that take from a second to some minutes."""
    drawn = random.Random(seed)
    measured = [min(600.0, drawn.lognormvariate(2, 1)) for _ in range(50)]
    durations = Durations({"normal": measured}, {"normal": 600.0})
    waits = []
    for _ in range(100):
        order, began = FairOrder(3), datetime.now(UTC)
        requests = [new_request(f"tenant-{drawn.randint(1, 3)}") for _ in range(20)]
        for request in requests:
            order.put(request.tenant, request.created_at, request.id)
        asked = drawn.choice(requests)
        expected = order.expected_start(asked, durations)
        assert expected is not None
        running: list[tuple[float, Turn | None]] = [(0.0, None)] * 3
        while True:
            running.sort(key=lambda one: one[0])
            at, ended = running.pop(0)
            if ended is not None:
                order.done(ended)
            turn = order.next()
            if turn.request_id == asked.id:
                break
            running.append((at + drawn.choice(measured), turn))
        waits.append(((expected - began).total_seconds(), at))

    assert mean(told for told, _ in waits) == pytest.approx(mean(was for _, was in waits), rel=0.2)
