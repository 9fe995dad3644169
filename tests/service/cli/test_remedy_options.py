"""A remedy names fields of a trace request: the command adds its own options for them."""

import pytest
import typer.main

from service.cli import app
from service.cli.remedy_options import Command, options_of, remedy_lines
from tracehouse.findings.remedies import LET_MODE_BE_AUTO


@pytest.mark.parametrize(
    ("remedy", "options"),
    [
        (f"write torch.where; {LET_MODE_BE_AUTO}", "--mode for mode"),
        (
            'set weights.rename to {"module.": ""}, or raise check.budget_s.',
            "--weights-rename for weights.rename, --budget for check.budget_s",
        ),
        ("declare the dim in `dynamic` and its `sizes`", "--dynamic for dynamic, --sizes for sizes"),
    ],
)
def test_the_options_for_the_fields_of_a_remedy_come_after_it(remedy: str, options: str) -> None:
    assert [*remedy_lines(remedy)] == [f"  remedy: {remedy}", f"  options of tracehouse trace: {options}"]


def test_a_remedy_that_names_no_field_stands_alone() -> None:
    remedy = "the mode of the sizes of its weights: init them; see my.check.budget_s_max"

    assert [*remedy_lines(remedy)] == [f"  remedy: {remedy}"]


@pytest.mark.parametrize("name", ["trace", "check"])
def test_every_option_is_one_of_the_command(name: Command) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}

    assert {*options_of(name).values()} <= known


def test_a_check_names_its_own_command_and_no_option_that_it_lacks() -> None:
    remedy = "let `mode` be auto, or set accept_unsound"

    assert [*remedy_lines(remedy, "check")][1:] == ["  options of tracehouse check: --mode for mode"]
