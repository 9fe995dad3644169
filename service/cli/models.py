"""`tracehouse models`: what is registered, and which version of it answers."""

from typing import Any

import typer

from service.cli.connection import Client, ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups

Document = dict[str, Any]


@with_option_groups
def models(as_json: Json = False, *, service: ServiceOptions) -> None:
    """List the models, their versions, aliases and default versions."""
    with connect(service) as client:
        listed = _list(client)
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
