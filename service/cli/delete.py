"""`tracehouse delete`: a model, a version, an alias or a trace request goes away."""

from typing import Annotated

import typer

from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.trace_requests import is_id
from service.cli.versions import parse_version


@with_option_groups
def delete(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL[:VERSION|@ALIAS]|ID",
            help="A version; an alias, whose version stays; a model with all of them; or the id of a trace request.",
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Delete a whole model without asking.")] = False,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Delete a version, an alias, a trace request that has ended, or a whole model. It cannot be taken back."""
    path = _path_of(what, yes=yes)
    with connect(service) as client:
        client.delete(path)
    if as_json:
        print_json({"deleted": what})
    else:
        typer.echo(f"deleted: {what}")


def _path_of(what: str, *, yes: bool) -> str:
    """Return the path of what is named; for a whole model, ask first."""
    if is_id(what):
        return f"/trace/{what}"
    wanted = parse_version(what)
    name = wanted.name
    if wanted.alias is not None:
        return f"/models/{name}/aliases/{wanted.alias}"
    if wanted.version is not None:
        return f"/models/{name}/versions/{wanted.version}"
    if not yes:
        typer.confirm(f"Delete {name} with all its versions and aliases?", abort=True, err=True)
    return f"/models/{name}"
