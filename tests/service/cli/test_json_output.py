"""Each command that ends prints JSON for programs if it is asked to."""

import json
from collections.abc import Iterator
from typing import Any

import typer.main
from typer.testing import CliRunner

from service.cli import app
from tests.service.cli.answers import answering

# They run until they are stopped.
ENDLESS = {"serve", "worker"}


def test_every_command_that_ends_has_json() -> None:
    without = {name for name, command in commands(typer.main.get_command(app)) if not takes_json(command)}

    assert without == ENDLESS


def test_a_reply_is_json_with_the_option_and_without() -> None:
    reply = {"model_name": "net", "outputs": []}
    with answering(lambda *_: (200, reply)) as url:
        printed = [
            CliRunner().invoke(app, ["infer", "net", "{}", "--url", url, *options]).stdout
            for options in ([], ["--json"])
        ]

    assert [json.loads(each) for each in printed] == [reply, reply]


def commands(group: Any, parent: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{parent}{name}", command


def takes_json(command: Any) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)
