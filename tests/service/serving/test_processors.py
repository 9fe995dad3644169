"""How long the processors had nothing to do, as the kernel says."""

import os
import time
from pathlib import Path

import pytest

from service.serving import processors
from service.serving.processors import find_processors, read_idle_s

STAT = """\
cpu  60 0 0 60000 3000 0 0 0 0 0
cpu0 10 0 0 10000 1000 0 0 0 0 0
cpu1 20 0 0 20000 500 0 0 0 0 0
cpu12 30 0 0 30000 1500 0 0 0 0 0
intr 1 2 3
"""


@pytest.mark.parametrize(
    ("usable", "ticks"), [({0}, 11_000), ({0, 12}, 42_500), ({1}, 20_500), ({0, 1, 2}, None)], ids=str
)
def test_only_the_processors_count_that_the_service_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usable: set[int], ticks: int | None
) -> None:
    monkeypatch.setattr(processors, "find_processors", lambda: usable)
    (stat := tmp_path / "stat").write_text(STAT)

    assert read_idle_s(stat) == (None if ticks is None else ticks / os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("text", ["", "cpu0 1 2", "cpu0 a b c d e"])
def test_what_cannot_be_read_is_unknown(tmp_path: Path, text: str) -> None:
    (stat := tmp_path / "stat").write_text(text)

    assert read_idle_s(stat) is None
    assert read_idle_s(tmp_path / "nothing") is None


def test_no_processor_of_this_machine_is_idle_for_longer_than_the_time_that_passes() -> None:
    began, before = time.monotonic(), read_idle_s()
    time.sleep(0.3)
    after, seconds = read_idle_s(), time.monotonic() - began

    assert before is not None
    assert after is not None
    assert after - before <= (seconds + 0.1) * len(find_processors())
