"""`tracehouse alias`: names for versions, such as `prod`."""

from typing import Annotated

import typer

from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors
from service.cli.json_output import Json, print_json
from service.cli.versions import NAMED, find_version, parse_name


def alias(
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help=f"{NAMED}.")],
    alias: Annotated[str, typer.Argument(help="The alias, such as prod.", callback=parse_name)],
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Point an alias at a version, whether the alias exists or not. Requests name it as MODEL@ALIAS.

    `tracehouse delete MODEL@ALIAS` deletes it.
    """
    with explain_errors(url):
        client = Client(url, key)
        name, wanted = find_version(client, version)
        pointed = client.set_alias(name, alias, wanted["version"])
    if as_json:
        print_json({"model": name, **pointed})
    else:
        typer.echo(f"{name}@{alias} → {pointed['version']}")
