"""`tracehouse promote`: which version of a model answers requests that name none."""

from typing import Annotated

import typer

from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors
from service.cli.json_output import Json, print_json
from service.cli.versions import NAMED, find_version


def promote(
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help=f"{NAMED}.")],
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make a version the default version, which answers requests that name none. Rolling back is the same."""
    with explain_errors(url):
        client = Client(url, key)
        name, wanted = find_version(client, version)
        promoted = client.promote(name, wanted["version"])
    if as_json:
        print_json(promoted)
    else:
        before = promoted["previous_version"]
        was = "none" if before is None else f"version {before}"
        typer.echo(f"{name}: version {promoted['default_version']} answers now; before, {was} did.")
