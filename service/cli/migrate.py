"""`tracehouse migrate`: brings the database to this release, and ends."""

import os
from pathlib import Path
from typing import Annotated

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.usage_errors import refuse


def migrate(
    as_json: Json = False,
    state: Annotated[Path | None, typer.Option(help="Directory of the service's database.")] = None,
) -> None:
    """Make the database's tables, or bring them to this release, and end.

    Every process of the service does the same when it starts, so this is for those who want it done before. Of several
    that do it at once, one changes the tables, and the others wait for it.
    """
    import migrations  # these import SQLAlchemy: no other command waits for it
    from service.storage.database import NotMigrated
    from service.storage.database import migrate as migrate_database

    settings = settings_of(state)
    os.umask(0o077)  # as in `tracehouse serve`, because a state directory may be made here
    try:
        earlier = migrate_database(settings.database)
    except NotMigrated as error:
        refuse(f"The database was not migrated: {error}.")
    except OSError as error:
        refuse(f"Cannot use {settings.state_dir} as the state directory ({error.strerror}).")
    if as_json:
        print_json({"revision": max(migrations.HEAD, earlier or ""), "previous_revision": earlier})
    elif earlier == migrations.HEAD:
        typer.echo(f"The tables are at revision {earlier}, as this release needs them.")
    elif earlier is None:
        typer.echo(f"The tables are made, at revision {migrations.HEAD}.")
    elif earlier > migrations.HEAD:
        typer.echo(f"The tables are at revision {earlier}, of a newer release, and this one may use them.")
    else:
        typer.echo(f"The tables are at revision {migrations.HEAD} now; they were at {earlier}.")
