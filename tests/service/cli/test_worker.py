"""`tracehouse worker`, and `serve` without workers, need what several processes can share."""

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
