"""`tracehouse worker`, and `serve` without workers, need what several processes can share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app

COMMANDS = [["worker"], ["serve", "--role", "api", "--port", "0"]]
ON_POSTGRES = {"DATABASE_URL": "postgresql://nobody@/nothing?host=/nonexistent"}


def run(command: list[str], state: Path, **environment: str) -> Result:
    return CliRunner().invoke(app, [*command, "--state", str(state)], env=environment)


@pytest.mark.parametrize("command", COMMANDS)
def test_sqlite_is_no_database_of_several_processes(command: list[str], tmp_path: Path) -> None:
    ended = run(command, tmp_path)

    assert ended.exit_code == 2
    assert "need PostgreSQL: set DATABASE_URL" in ended.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_files_that_others_do_not_reach_are_refused(command: list[str], tmp_path: Path) -> None:
    ended = run(command, tmp_path, **ON_POSTGRES)

    assert ended.exit_code == 2
    assert "need the same files: set BLOB_URL" in ended.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_does_not_answer_is_told_in_a_line(command: list[str], tmp_path: Path) -> None:
    tracehouse = Path(sys.executable).with_name("tracehouse")
    there = {"BLOB_URL": (tmp_path / "blobs").as_uri(), "SANDBOX": "i-accept-no-isolation"}
    database = ON_POSTGRES["DATABASE_URL"].replace("nobody", "nobody:secret")
    # A process of its own, for it sets its handlers of signals before it asks the database.
    ended = subprocess.run(
        [tracehouse, *command, "--state", tmp_path / "state"],
        env={**os.environ, **there, "DATABASE_URL": database},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("The database that DATABASE_URL names cannot be used: ")
    assert "/nonexistent" in ended.stderr
    assert ("secret" in ended.stderr, "Traceback" in ended.stderr) == (False, False)
