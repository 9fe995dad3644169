"""`tracehouse environments`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from service.environments.environments import Environments
from tests.environments import add_environment
from tests.wheels import write_requirements, write_wheel

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return lambda *arguments: CliRunner().invoke(app, ["environments", *arguments, "--state", str(tmp_path / "state")])


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    return Environments(tmp_path / "state" / "environments")


def test_an_environment_is_made_of_requirements_and_shown(command: Command, tmp_path: Path) -> None:
    write_wheel(tmp_path, "scales_for_tests", "1.0", "scales", "FACTOR = 2")
    requirements = write_requirements(tmp_path, "scales_for_tests")

    made = command("create", "vision", "-r", str(requirements))

    assert (made.exit_code, made.stdout) == (0, "Environment vision has scales_for_tests 1.0.\n"), made.stderr
    assert command("list").stdout == "vision: scales_for_tests 1.0\n"
    shown = command("show", "vision").stdout
    assert "sha256:" in shown
    assert "scales_for_tests==1.0  imported as scales\n" in shown


def test_what_cannot_be_installed_is_a_line_and_leaves_nothing(command: Command, tmp_path: Path) -> None:
    refused = command("create", "vision", "-r", str(write_requirements(tmp_path, "torch<2")))

    assert refused.exit_code == 2
    assert "would replace packages of the service: torch " in refused.stderr.splitlines()[-1]
    assert command("list").stdout == ""


def test_a_name_that_is_no_name_is_refused(command: Command, tmp_path: Path) -> None:
    refused = command("create", "../vision", "-r", str(write_requirements(tmp_path)))

    assert refused.exit_code == 2
    assert "letters, digits" in refused.stderr


def test_a_deleted_environment_is_not_listed(command: Command, environments: Environments) -> None:
    add_environment(environments, "vision")

    assert command("delete", "vision").stdout == "Environment vision is deleted.\n"
    assert "There are no environments" in command("list").stderr
    assert environments.list() == []


@pytest.mark.parametrize("name", ["show", "delete"])
def test_an_unknown_environment_is_a_line(command: Command, name: str) -> None:
    refused = command(name, "vision")

    assert refused.exit_code == 2
    assert "There is no environment of this name" in refused.stderr


def test_files_of_a_trace_that_runs_stay_and_it_is_said(command: Command, environments: Environments) -> None:
    with environments.hold(add_environment(environments, "vision")):
        deleted = command("delete", "vision")
        add_environment(environments, "vision")
        for_programs = command("delete", "vision", "--json")

    assert deleted.exit_code == 0
    assert "A trace still uses its files" in deleted.stderr
    assert json.loads(for_programs.stdout) == {"deleted": "vision", "are_files_removed": False}


def test_environments_are_printed_for_programs(command: Command, environments: Environments) -> None:
    add_environment(environments, "vision")
    [listed] = json.loads(command("list", "--json").stdout)["environments"]

    assert listed["name"] == "vision"
    assert json.loads(command("show", "vision", "--json").stdout) == listed


def test_what_is_made_and_deleted_is_printed_for_programs(command: Command, tmp_path: Path) -> None:
    write_wheel(tmp_path, "scales_for_tests", "1.0", "scales", "FACTOR = 2")

    made = command("create", "vision", "-r", str(write_requirements(tmp_path, "scales_for_tests")), "--json")
    shown = command("show", "vision", "--json")
    deleted = command("delete", "vision", "--json")

    assert json.loads(made.stdout) == json.loads(shown.stdout)
    assert json.loads(deleted.stdout) == {"deleted": "vision", "are_files_removed": True}
