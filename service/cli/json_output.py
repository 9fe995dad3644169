"""What a command prints for programs."""

from typing import Annotated, Any

import orjson
import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(document: Any) -> None:
    """Print a document over several lines."""
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2))
