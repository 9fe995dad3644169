"""The bar of a command while a trace runs."""

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
