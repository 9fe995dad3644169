"""`tracehouse models`: what is registered, which version of it answers, aliases and deletion."""

from typing import Annotated

import orjson
import typer

from service.cli.connection import DEFAULT_URL, Client, Json, Key, Url, explain_errors
from service.cli.versions import parse_name, parse_version

models = typer.Typer(help="List the models, promote and delete versions, set aliases.", rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: Json = False, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """List the models, their versions, aliases and default versions."""
    if context.invoked_subcommand is not None:
        _refuse_options_before(context, context.invoked_subcommand)
        return
    cursor: dict[str, str] = {}
    listed = []
    with explain_errors(url):
        while True:
            page = Client(url, key).get("/models", **cursor)
            listed += page["models"]
            if not listed and not as_json:
                typer.echo("There is no model yet: `tracehouse trace` makes one.", err=True)
            for model in () if as_json else page["models"]:
                versions = ", ".join(f"{each['version']} {each['verdict']}" for each in model["versions"])
                aliases = "".join(f"  @{alias['alias']} → {alias['version']}" for alias in model["aliases"])
                default = model["default_version"] or "none"
                typer.echo(f"{model['name']}: {versions}  default → {default}{aliases}")
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
    if as_json:
        typer.echo(orjson.dumps({"models": listed}, option=orjson.OPT_INDENT_2))


@models.command()
def promote(
    name: Annotated[str, typer.Argument(help="The model.")],
    version: Annotated[int, typer.Argument(help="The version that answers requests from now on.", min=1)],
    as_json: Json = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Make a version the default version, which answers requests that name none. Rolling back is the same."""
    with explain_errors(url):
        promoted = Client(url, key).promote(name, version)
    if as_json:
        typer.echo(orjson.dumps(promoted, option=orjson.OPT_INDENT_2))
    else:
        typer.echo(f"{name}: version {version} answers now; before, {_name_version(promoted['previous_version'])} did.")


@models.command()
def alias(
    name: Annotated[str, typer.Argument(help="The model.", callback=parse_name)],
    alias: Annotated[str, typer.Argument(help="The alias, such as prod.", callback=parse_name)],
    version: Annotated[int, typer.Argument(help="The version that it points at from now on.", min=1)],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Point an alias at a version, whether it exists or not. Requests name it as MODEL@ALIAS."""
    with explain_errors(url):
        Client(url, key).set_alias(name, alias, version)
    typer.echo(f"{name}@{alias} → {version}")


@models.command()
def unalias(
    name: Annotated[str, typer.Argument(help="The model.", callback=parse_name)],
    alias: Annotated[str, typer.Argument(help="The alias.", callback=parse_name)],
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Delete an alias. Its version stays."""
    with explain_errors(url):
        Client(url, key).delete(f"/models/{name}/aliases/{alias}")
    typer.echo(f"deleted: {name}@{alias}")


@models.command()
def delete(
    what: Annotated[str, typer.Argument(metavar="MODEL[:VERSION]", help="A version; or a model with all of them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete a whole model without asking.")] = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
) -> None:
    """Delete a version, or a model with all versions and aliases. It cannot be taken back."""
    wanted = parse_version(what)
    name, version = wanted.name, wanted.version
    if wanted.alias is not None:
        raise typer.BadParameter(f"to delete an alias: tracehouse models unalias {name} {wanted.alias}")
    if version is None and not yes:
        typer.confirm(f"Delete {name} with all its versions and aliases?", abort=True, err=True)
    with explain_errors(url):
        Client(url, key).delete(f"/models/{name}" if version is None else f"/models/{name}/versions/{version}")
    typer.echo(f"deleted: {what}")


def _refuse_options_before(context: typer.Context, command: str) -> None:
    """Raise if an option stands where the command would not see it: it could then change another service."""
    for option, written in (("url", "--url"), ("key", "--key"), ("as_json", "--json")):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"give {written} after {command}")


def _name_version(version: int | None) -> str:
    return "none" if version is None else f"version {version}"
