"""The file that `tracehouse report --output` and `tracehouse download` write, and the places where none can be."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from tests.service.cli.answers import answering

ID = "0" * 32
PAGE = b'"page"'
ARTIFACT = {"digest": "sha256:1", "device": "cpu", "bucket": {}, "links": {"report": "/page"}}
VERSION = {"version": 1, "verdict": "verified", "artifacts": {"cpu": "sha256:1"}, "buckets": []}
REPLIES: dict[str, Any] = {
    f"/trace/{ID}": {"id": ID, "state": "succeeded", "verdict": "verified", "artifacts": [{"digest": "sha256:1"}]},
    "/artifacts/sha256:1": ARTIFACT,
    "/models/net": {"name": "net", "default_version": 1, "versions": [VERSION], "aliases": []},
}
Write = Callable[[str], Result]


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture(params=["report", "download"])
def write(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> Iterator[Write]:
    monkeypatch.chdir(tmp_path)

    def answer(method: str, path: str, sent: Any) -> tuple[int, Any]:
        asked.append(path)
        return 200, REPLIES.get(path, "page")

    with answering(answer) as url:
        before = ["report", ID, "--output"] if request.param == "report" else ["download", "net"]
        yield lambda file: CliRunner().invoke(app, [*before, file, "--url", url])


def test_a_file_is_written_and_one_that_was_there_is_replaced(write: Write, tmp_path: Path) -> None:
    (tmp_path / "written").write_text("before")

    assert write("written").exit_code == 0
    assert (tmp_path / "written").read_bytes() == PAGE


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("new/", "new/ names a folder: name a file in it"),
        ("new/.", "new/. names a folder: name a file in it"),
        ("folder", "folder is a folder: name a file in it, such as folder/"),
        ("folder/", "folder/ names a folder: name a file in it"),
        ("none/page", "there is no folder"),
        ("circle", "circle cannot be written: it is a link that leads back to itself"),
        ("n" * 300, "cannot be written: File name too long"),
    ],
)
def test_a_place_where_no_file_can_be_is_refused_before_the_service_is_asked(
    write: Write, tmp_path: Path, asked: list[str], file: str, why: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    refused = write(file)

    said = " ".join(refused.stderr.replace("│", " ").split())
    assert (refused.exit_code, why in said, asked) == (2, True, []), said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["circle", "folder"]
    assert (tmp_path / "circle").is_symlink()


def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused = write("pipe")

    said = " ".join(refused.stderr.replace("│", " ").split())
    assert (refused.exit_code, "pipe is a pipe that nobody reads: start what reads it first" in said) == (2, True), said


def test_a_pipe_that_somebody_reads_is_written_to(write: Write, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    arrived: list[bytes] = []
    with open(reading, "rb") as pipe:
        reader = threading.Thread(target=lambda: arrived.append(pipe.read()), daemon=True)
        written = write("pipe")
        reader.start()
        reader.join()

    assert (written.exit_code, arrived) == (0, [PAGE]), written.stderr
