"""Priority: what traces comes after what answers, also where Linux shares processors out between sessions first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.sandbox import priority
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote


def session_niceness(pid: int) -> str:
    """As Linux says it; empty if this kernel gives sessions none."""
    file = Path(f"/proc/{pid}/autogroup")
    return file.read_text().rpartition("nice ")[2].strip() if file.exists() else ""


def test_all_that_is_traced_gives_way_together(zygote: Zygote, limits: Limits) -> None:
    program = "from service.sandbox.priority import session_gives_way; session_gives_way(); print(flush=True); input()"
    with (
        zygote.fork("programs.echo", limits, profile="trace") as one,
        zygote.fork("programs.echo", limits, profile="infer") as other,
        zygote.fork("programs.echo", limits, profile="infer", answers=True) as answers,
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as gives_way,
    ):
        assert gives_way.stdout is not None
        gives_way.stdout.readline()
        expected = session_niceness(gives_way.pid)
        for child in (one, other, answers):
            child.channel.send({})
            child.channel.receive()
        sessions = [os.getsid(child.pid) for child in (one, other, answers)]
        niceness = [session_niceness(child.pid) for child in (one, other, answers)]
        gives_way.kill()

    assert sessions[0] == sessions[1] != sessions[2] == answers.pid
    assert niceness[:2] == [expected, expected]
    assert niceness[2] == ("0" if expected else "")


def test_a_change_for_which_others_are_too_many_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 2

    class Session(type(tmp_path)):  # type: ignore[misc]
        def write_text(self, text: str) -> int:  # type: ignore[override]
            nonlocal refused
            if refused:
                refused -= 1
                raise BlockingIOError
            return super().write_text(text)

    file = Session(tmp_path / "autogroup")
    monkeypatch.setattr(priority, "_SESSION", file)
    monkeypatch.setattr(priority, "_BETWEEN_TRIES_S", 0)

    priority.session_gives_way(7)

    assert file.read_text() == "7"


def test_a_machine_without_such_weights_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_SESSION", tmp_path / "missing" / "autogroup")

    priority.session_gives_way()

    assert not any(tmp_path.iterdir())
