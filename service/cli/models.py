"""`tracehouse models`: what is registered."""

import typer

from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors


def models(url: Url = DEFAULT_URL, key: Key = None) -> None:
    """List the models, their versions and aliases."""
    cursor: dict[str, str] = {}
    with explain_errors(url):
        while True:
            page = Client(url, key).get("/models", **cursor)
            for model in page["models"]:
                versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
                aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
                typer.echo(f"{model['name']}: {versions}{aliases}")
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}
