"""The commands and the environment's settings."""

import pytest
from typer.testing import CliRunner

from service.cli import app


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_setting_that_makes_no_sense_is_named_and_nothing_is_begun(command: str) -> None:
    ended = CliRunner().invoke(app, [command], env={"TRACE_SLOTS": "many"})

    assert ended.exit_code == 2
    assert ended.stderr.startswith("TRACE_SLOTS: ")
    assert ended.stdout == ""
