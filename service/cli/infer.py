"""`tracehouse infer`: ask a served model from the shell."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connection import ServiceOptions, connect
from service.cli.existing_file import existing_file
from service.cli.json_output import print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import NAMED, parse_version


@with_option_groups
def infer(
    model: Annotated[str, typer.Argument(help=f"{NAMED}.")],
    body: Annotated[
        str, typer.Argument(help='JSON such as {"args": [[1.0, 2.0]]}; @FILE reads a file, - standard input.')
    ],
    method: Annotated[str, typer.Option(help="The method to call.")] = "forward",
    _as_json: Annotated[
        bool, typer.Option("--json", help="Changes nothing: the reply is JSON with and without.")
    ] = False,
    *,
    service: ServiceOptions,
) -> None:
    """Send one inference request and print the reply."""
    parse_version(model)  # another text would make another address of it
    with connect(service) as client:
        reply = client.infer(model, _read(body), method)
    print_json(reply)


def _read(body: str) -> bytes:
    if body == "-":
        return sys.stdin.buffer.read()
    if body.startswith("@"):
        return existing_file(Path(body[1:])).read_bytes()
    return body.encode()
