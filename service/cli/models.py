"""`tracehouse models`: what is registered, and which version of it answers."""

from typing import Any

import typer

from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors
from service.cli.json_output import Json, print_json

Document = dict[str, Any]


def models(as_json: Json = False, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """List the models, their versions, aliases and default versions."""
    with explain_errors(url):
        listed = _list(Client(url, key))
    if as_json:
        print_json({"models": listed})
    elif not listed:
        typer.echo("There is no model yet: `tracehouse trace` makes one.", err=True)
    for model in () if as_json else listed:
        versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
        aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
        typer.echo(f"{model['name']}: {versions}  default → {model['default_version'] or 'none'}{aliases}")


def _list(client: Client) -> list[Document]:
    listed: list[Document] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/models", **cursor)
        listed += page["models"]
        if page["next_cursor"] is None:
            return listed
        cursor = {"cursor": page["next_cursor"]}
