from datetime import UTC, datetime, timedelta

import pytest

from tests.terminal import terminal
from tracehouse.client.progress import EventText, show_progress


def test_a_request_that_waits_is_told_when_it_is_expected_to_begin() -> None:
    start = datetime.now(UTC) + timedelta(minutes=7, seconds=5)

    told = EventText().describe("position", {"position": 3, "expected_start": start.isoformat()})

    assert told == "queued, place 3, expected to begin in 7 min"
    assert EventText().describe("position", {"position": 3, "expected_start": None}) == "queued, place 3"
    assert EventText().describe("position", {"position": 3}) == "queued, place 3", "an earlier release tells no more"


def test_text_of_the_model_neither_acts_on_the_terminal_nor_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = "\x1b]0;title\x07\u202e"
    with terminal(monkeypatch) as shown, show_progress(True) as progress:
        progress.take("layer", {"name": "flip", "method": f"[/red]{codes}", "progress": 0.5})
        progress.take("log", {"text": f"printed {codes}\n"})

    assert r"printed \x1b]0;title\x07\u202e" in shown.text
    assert r"checked [/red]\x1b]0;title\x07\u202e" in shown.text
    assert codes not in shown.text
