"""`tracehouse alias`: names for versions, such as `prod`."""

from typing import Annotated

import typer

from service.cli.connection import ServiceOptions, connect
from service.cli.json_output import Json, print_json
from service.cli.option_groups import with_option_groups
from service.cli.versions import NAMED, MoveBackAfter, find_version, parse_name, print_moving_back


@with_option_groups
def alias(
    version: Annotated[str, typer.Argument(metavar="MODEL:VERSION", help=f"{NAMED}.")],
    alias: Annotated[str, typer.Argument(help="The alias, such as prod.", callback=parse_name)],
    move_back_after: MoveBackAfter = None,
    as_json: Json = False,
    *,
    service: ServiceOptions,
) -> None:
    """Point an alias at a version, whether the alias exists or not. Requests name it as MODEL@ALIAS.

    `tracehouse delete MODEL@ALIAS` deletes it.
    """
    with connect(service) as client:
        name, wanted = find_version(client, version)
        pointed = client.set_alias(name, alias, wanted["version"], move_back_after)
    if as_json:
        print_json({"model": name, **pointed})
    else:
        typer.echo(f"{name}@{alias} → {pointed['version']}")
        print_moving_back(move_back_after)
