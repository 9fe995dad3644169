"""`tracehouse keys`: who may use the service. The commands work on its database, also while it runs."""

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.table import print_table
from service.cli.usage_errors import refuse
from service.domain.api_key import DEFAULT_TENANT, ApiKey, Scope, Token
from service.domain.audit import COMMAND
from service.domain.errors import ApiKeyInvalid
from service.domain.key_reply import CreatedKey, KeyReply
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
    tenant: Annotated[str, typer.Option(help="The tenant that the key opens.")] = DEFAULT_TENANT,
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What the key may do, once for each. Default: trace, read and infer.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How long the key is valid: 12h, 90d or 8w. Default: forever."),
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Requests beyond these are refused. Default: the service's own limit."),
    ] = None,
    upload_max_bytes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="A larger upload is refused. Default: the service's own limit."),
    ] = None,
    as_json: Json = False,
    state: State = None,
) -> None:
    """Make a key and print it. It is never shown again."""
    settings = settings_of(state)
    with _api_keys(settings, may_create=True) as api_keys:
        key, token = api_keys.create(
            name,
            tenant,
            scope or (Scope.TRACE, Scope.READ, Scope.INFER),
            expires_at=None if expires is None else _expiry(expires),
            requests_per_minute=requests_per_minute,
            upload_max_bytes=upload_max_bytes,
            by=COMMAND,
        )
    if as_json:
        print_json(CreatedKey.of(key, key=token).model_dump(mode="json"))
        return
    until = f"until {_time(key.expires_at)}" if key.expires_at else "until it is revoked"
    typer.echo(f"Key {key.prefix}, for {key.name}: {_scopes(key)} as tenant {key.tenant}, {until}.", err=True)
    typer.echo(f"It opens the service whose state is in {_place(settings)}.", err=True)
    typer.echo("This is the only time that it is shown. Send it as Authorization: Bearer KEY,", err=True)
    typer.echo("or give it to the tracehouse command as TRACEHOUSE_KEY:", err=True)
    typer.echo(token)


@keys.command()
def generate(as_json: Json = False) -> None:
    """Print a new key that no service knows yet, for a file that FIRST_KEY_FILE names."""
    token = Token.new().text
    if as_json:
        print_json({"key": token})
    else:
        typer.echo(token)


@keys.command("list")
def show(as_json: Json = False, state: State = None) -> None:
    """List all keys, also expired and revoked ones. Times are UTC; `-` for a limit means the service's own."""
    with _api_keys(settings_of(state)) as api_keys:
        listed = api_keys.list()
    if as_json:
        print_json({"keys": [KeyReply.of(key).model_dump(mode="json") for key in listed]})
        return
    if not listed:
        typer.echo("There are no keys; tracehouse keys create makes one.", err=True)
        return
    print_table(
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
                for key in listed
            ),
        ]
    )


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's visible part, such as th_ab12cd34, or the whole key.")],
    as_json: Json = False,
    state: State = None,
) -> None:
    """Revoke a key: from now on it opens nothing."""
    with _api_keys(settings_of(state)) as api_keys:
        revoked = api_keys.revoke(_prefix(key), by=COMMAND)
    if as_json:
        print_json(KeyReply.of(revoked).model_dump(mode="json"))
    else:
        typer.echo(f"Key {revoked.prefix}, for {revoked.name}, is revoked.")


@contextmanager
def _api_keys(settings: Settings, *, may_create: bool = False) -> "Iterator[ApiKeys]":
    """Open the keys of the service that has these settings. An error is one line, and exit status 2."""
    from service.storage.api_keys import ApiKeys  # imports SQLAlchemy, for which no other command waits
    from service.storage.database import open_database, sqlite_file

    os.umask(0o077)  # as in `tracehouse serve`, because a state directory may be made here
    try:
        file = sqlite_file(settings.database)
        if not may_create and file is not None and not file.exists():
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
    """Return where the keys are kept, but no URL: that may have a password in it."""
    from service.storage.database import sqlite_file

    file = sqlite_file(settings.database)
    return "DATABASE_URL" if file is None else str(file.parent)


def _prefix(key: str) -> str:
    """Return the visible part of a key, which may be given whole."""
    with suppress(ApiKeyInvalid):
        return Token.parse(key).prefix
    return key


def _expiry(duration: str) -> datetime:
    parts = _DURATION.fullmatch(duration)
    if parts is None:
        refuse(f"--expires: {duration!r} is not a time such as 12h, 90d or 8w.")
    return datetime.now(UTC) + int(parts[1]) * _UNITS[parts[2]]


def _scopes(key: ApiKey) -> str:
    return ",".join(key.scopes_in_order)


def _limit(number: int | None) -> str:
    return "-" if number is None else str(number)


def _time(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%dT%H:%M}"
