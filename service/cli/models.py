"""`tracehouse models`: what is registered, and which version of it answers."""

from typing import Annotated

import typer

from service.cli.connection import DEFAULT_URL, Client, Key, Url, explain_errors

models = typer.Typer(help="List the models, and promote their versions.", rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def show(context: typer.Context, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """List the models, their versions, aliases and default versions."""
    if context.invoked_subcommand is not None:
        _refuse_options_before(context, context.invoked_subcommand)
        return
    cursor: dict[str, str] = {}
    with explain_errors(url):
        while True:
            page = Client(url, key).get("/models", **cursor)
            if not page["models"] and not cursor:
                typer.echo("There is no model yet: `tracehouse trace` makes one.", err=True)
            for model in page["models"]:
                versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
                aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
                default = model["default_version"] or "none"
                typer.echo(f"{model['name']}: {versions}  default → {default}{aliases}")
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}


@models.command()
def promote(
    name: Annotated[str, typer.Argument(help="The model.")],
    version: Annotated[int, typer.Argument(help="The version that answers requests from now on.", min=1)],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make a version the default version, which answers requests that name none. Rolling back is the same."""
    with explain_errors(url):
        promoted = Client(url, key).promote(name, version)
        typer.echo(f"{name}: version {version} answers now; before, {_name_version(promoted['previous_version'])} did.")


def _refuse_options_before(context: typer.Context, command: str) -> None:
    """Raise if an option stands where the command would not see it: it could then change another service."""
    for option in ("url", "key"):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give --{option} after {command}")


def _name_version(version: int | None) -> str:
    return "none" if version is None else f"version {version}"
