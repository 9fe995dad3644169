"""What is counted of the requests to a version."""

import asyncio

import pytest

from service.domain.errors import PoolSaturated
from service.serving import statistics
from service.serving.pending_call import CallLeft
from service.serving.statistics import FailureReason, Statistics
from tracehouse.errors import GraphRaised, RunnerLost, ShapeMismatch

KEY = ("ours", "net", 1)


def test_requests_that_are_answered_and_that_are_not_are_told_apart() -> None:
    counted = Statistics()
    with counted.measure(KEY) as answered:
        answered.executions += 1
    with pytest.raises(ZeroDivisionError), counted.measure(KEY):
        _ = 1 / 0

    found = counted.of(KEY)
    assert (found.success.count, found.failure.count, found.executions) == (1, 1, 1)
    assert found.success.ns > 0
    assert found.last_inference_ms > 0
    assert counted.of(("theirs", "net", 1)).success.count == 0


def test_the_versions_that_were_asked_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_KEPT_MAX", 2)
    counted = Statistics()
    for version in (1, 2, 1, 3):
        with counted.measure(("ours", "net", version)):
            pass

    assert [counted.of(("ours", "net", version)).success.count for version in (1, 2, 3)] == [2, 0, 1]


def test_no_request_is_lost_from_the_totals_when_its_versions_statistics_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_KEPT_MAX", 2)
    counted = Statistics()
    for version in range(5):
        with counted.measure(("ours", "net", version)):
            pass
        with pytest.raises(GraphRaised), counted.measure(("ours", "net", version)):
            raise GraphRaised("no such row")

    assert len(counted.all()) == 2
    ended = counted.ended()
    assert (ended.success, ended.failures[FailureReason.BACKEND]) == (5, 5)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PoolSaturated("full"), FailureReason.REJECTED),
        (asyncio.CancelledError(), FailureReason.CANCELED),
        (CallLeft(), FailureReason.CANCELED),
        (RunnerLost("killed"), FailureReason.BACKEND),
        (ShapeMismatch("no such shape"), FailureReason.OTHER),
        (ZeroDivisionError(), FailureReason.OTHER),
    ],
)
def test_a_failure_has_the_reason_that_triton_would_give(error: BaseException, reason: FailureReason) -> None:
    counted = Statistics()
    with pytest.raises(type(error)), counted.measure(KEY):
        raise error

    assert counted.of(KEY).failures == {reason: 1}
