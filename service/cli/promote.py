"""`tracehouse promote`: which version of a model answers requests that name none."""

from typing import Annotated

import typer

from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import NAMED, MoveBackAfter, find_version, print_moving_back


@with_option_groups
def promote(
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help=f"{NAMED}.")],
    move_back_after: MoveBackAfter = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Make a version the default version, which answers requests that name none. Rolling back is the same."""
    with connect(service) as client:
        name, wanted = find_version(client, version)
        promoted = client.promote(name, wanted["version"], move_back_after)
    if as_json:
        print_json(promoted)
    else:
        before = promoted["previous_version"]
        was = "none" if before is None else f"version {before}"
        typer.echo(f"{name}: version {promoted['default_version']} answers now; before, {was} did.")
        print_moving_back(move_back_after)
