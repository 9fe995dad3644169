"""`tracehouse keys`: who may use the service. On its database itself, also while it runs."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.environment import settings_of
from service.cli.usage_errors import refuse
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope, Token
from service.domain.errors import ApiKeyInvalid
from service.settings import Settings
from tracehouse.errors import ServiceError

if TYPE_CHECKING:
    from service.storage.api_keys import ApiKeys

keys = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True, rich_markup_mode=None)

State = Annotated[Path | None, typer.Option("--state", help="Directory of the service's database.")]

_DURATION = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_TIMES = ("created", "expires", "last used", "revoked")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for, or whose it is.")],
    tenant: Annotated[str, typer.Option(help="Whose requests, artifacts and models it reaches.")] = DEFAULT_TENANT,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What it may do, once for each; trace, read and infer if not given.")
    ] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="For how long: 12h, 90d or 8w.")] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="More are refused; the service's own limit if not given.")
    ] = None,
    upload_max_bytes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The same for the size of a submission.")
    ] = None,
    state: State = None,
) -> None:
    """Make a key and print it, this one time."""
    settings = settings_of(state)
    with _api_keys(settings, makes_state=True) as api_keys:
        key, token = api_keys.create(
            name,
            tenant,
            scope or (Scope.TRACE, Scope.READ, Scope.INFER),
            expires_at=None if expires is None else _expiry(expires),
            requests_per_minute=requests_per_minute,
            upload_max_bytes=upload_max_bytes,
        )
    until = f"until {_time(key.expires_at)}" if key.expires_at else "until it is revoked"
    typer.echo(f"Key {key.prefix}, for {key.name}: {_scopes(key)} as tenant {key.tenant}, {until}.", err=True)
    typer.echo(f"It opens the service whose state is in {_place(settings)}.", err=True)
    typer.echo("This is the only time that it is shown. Send it as Authorization: Bearer KEY,", err=True)
    typer.echo("or give it to the tracehouse command as TRACEHOUSE_KEY:", err=True)
    typer.echo(token)


@keys.command("list")
def show(state: State = None) -> None:
    """List all keys, one a line, those too that are expired or revoked. Times are UTC; no limit: the service's."""
    with _api_keys(settings_of(state)) as api_keys:
        found = api_keys.list()
    if not found:
        typer.echo("There are no keys; tracehouse keys create makes one.", err=True)
        return
    _print_table(
        [
            ("prefix", "name", "tenant", "scopes", "per minute", "upload bytes", *_TIMES),
            *(
                (
                    key.prefix,
                    key.name,
                    key.tenant,
                    _scopes(key),
                    *map(_limit, (key.requests_per_minute, key.upload_max_bytes)),
                    *map(_time, (key.created_at, key.expires_at, key.last_used_at, key.revoked_at)),
                )
                for key in found
            ),
        ]
    )


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Its visible part, such as th_ab12cd34, or all of it.")],
    state: State = None,
) -> None:
    """End a key: from now on it opens nothing."""
    with _api_keys(settings_of(state)) as api_keys:
        revoked = api_keys.revoke(_prefix(key))
    typer.echo(f"Key {revoked.prefix}, for {revoked.name}, is revoked.")


@contextmanager
def _api_keys(settings: Settings, *, makes_state: bool = False) -> "Iterator[ApiKeys]":
    """Those of the service that has these settings. What goes wrong is one line, and the command exits 2."""
    from service.storage.api_keys import ApiKeys  # SQLAlchemy: no other command is to wait for it
    from service.storage.database import open_database, sqlite_file

    os.umask(0o077)  # as `tracehouse serve` does, for a state directory that is made here
    try:
        file = sqlite_file(settings.database)
        if not makes_state and file is not None and not file.exists():
            refuse(f"There is no Tracehouse state in {file.parent}; say where it is with --state.")
        with closing(open_database(settings.database)) as database:
            yield ApiKeys(database)
    except ServiceError as error:
        refuse(f"{error.title()}: {error.remedy() or error.detail}")
    except ValidationError as error:
        problem = error.errors()[0]
        refuse(f"{problem['loc'][0]}: {problem['msg']}.")
    except OSError as error:
        refuse(f"Cannot use {settings.state_dir} as the state directory ({error.strerror}).")


def _place(settings: Settings) -> str:
    """Where the keys are kept; a URL may have a password in it, and is not repeated."""
    from service.storage.database import sqlite_file

    file = sqlite_file(settings.database)
    return "DATABASE_URL" if file is None else str(file.parent)


def _prefix(key: str) -> str:
    """Who lost a key may have all of it at hand, and no list."""
    with suppress(ApiKeyInvalid):
        return Token.parse(key).prefix
    return key


def _expiry(lasting: str) -> datetime:
    parts = _DURATION.fullmatch(lasting)
    if parts is None:
        refuse(f"--expires: {lasting!r} is not a time such as 12h, 90d or 8w.")
    return datetime.now(UTC) + int(parts[1]) * _UNITS[parts[2]]


def _scopes(key: ApiKey) -> str:
    return ",".join(scope for scope in Scope if scope in key.scopes)


def _limit(number: int | None) -> str:
    return "-" if number is None else str(number)


def _time(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%dT%H:%M}"


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """As wide as it is: who reads it with grep wants a line a key."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
