"""What is counted of the requests to a version."""

import pytest

from service.serving import statistics
from service.serving.statistics import Statistics

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
