from datetime import UTC, datetime, timedelta

from tracehouse.client.progress import EventText


def test_a_request_that_waits_is_told_when_it_is_expected_to_begin() -> None:
    start = datetime.now(UTC) + timedelta(minutes=7, seconds=5)

    told = EventText().describe("position", {"position": 3, "expected_start": start.isoformat()})

    assert told == "queued, place 3, expected to begin in 7 min"
    assert EventText().describe("position", {"position": 3, "expected_start": None}) == "queued, place 3"
    assert EventText().describe("position", {"position": 3}) == "queued, place 3", "an earlier release tells no more"
