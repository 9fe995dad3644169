"""The bar of a command while a trace runs."""

import sys

import pytest

from service.cli.progress_bar import ProgressBar
from tests.terminal import terminal

CODES = "\x1b]0;title\x07\u202e"


def test_text_of_the_model_neither_acts_on_the_terminal_nor_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, ProgressBar() as bar:
        bar.take("layer", {"name": "flip", "method": f"[/red]{CODES}", "progress": 0.5})
        bar.print(f"printed {CODES}\n")

    assert r"printed \x1b]0;title\x07\u202e" in shown.text
    assert r"checked [/red]\x1b]0;title\x07\u202e" in shown.text
    assert CODES not in shown.text


def test_what_follows_begins_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.print("loading …")
    print("verdict: verified", file=sys.stderr)

    assert capsys.readouterr().err == "loading …\nverdict: verified\n"
