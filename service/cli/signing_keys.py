"""`tracehouse signing-keys`: the keys that a service signs artifacts with. They are in its state directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.usage_errors import refuse

if TYPE_CHECKING:  # imported where it is used, so that no other command waits for it
    from service.signing.signing_keys import SigningKeys
    from tracehouse.artifact.signature import PublicKey

signing_keys = typer.Typer(
    help="Show and change the keys that artifacts are signed with.", no_args_is_help=True, rich_markup_mode=None
)

State = Annotated[Path | None, typer.Option("--state", help="Directory of the service's database.")]


@signing_keys.command()
def show(
    key_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Default: the key that signs now.")] = None,
    as_json: Json = False,
    state: State = None,
) -> None:
    """Print a public key, for `tracehouse verify --key`."""
    with _signing_keys(state) as keys:
        listed = keys.public_keys(keys.current())
    found = next((key for key in listed if key_id in (None, key.id)), None)
    if found is None and key_id is not None and [*listed]:
        refuse("There is no such key; tracehouse signing-keys list shows them.")
    if found is None:
        refuse(_no_keys(state))
    if as_json:
        _print_key(found, is_current=found is listed.current)
        return
    typer.echo(f"Key {found.id}", err=True)
    typer.echo(found.pem, nl=False)


@signing_keys.command("list")
def show_all(as_json: Json = False, state: State = None) -> None:
    """List the ids of all keys that ever signed here, the present one first."""
    with _signing_keys(state) as keys:
        listed = keys.public_keys(keys.current())
    if as_json:
        from service.signing.signing_key_list import SigningKeyList

        print_json(SigningKeyList.of(listed).model_dump())
        return
    if not [*listed]:
        typer.echo(_no_keys(state), err=True)
    for key in listed:
        typer.echo(f"{key.id}  {'signs now' if key is listed.current else 'signed before'}")


@signing_keys.command()
def rotate(as_json: Json = False, state: State = None) -> None:
    """Make another private key and remove the present one. The service signs with it once it is started again.

    What was signed before stays signed, and the public key stays listed. If the private key may have become known to
    somebody, remove its public key too: the file of its id in the directory `signing/public`.
    """
    with _signing_keys(state) as keys:
        made = keys.rotate()
    if as_json:
        _print_key(made, is_current=True)
    else:
        typer.echo(f"Key {made.id} signs from the service's next start on.")


def _no_keys(state: Path | None) -> str:
    where = settings_of(state).state_dir
    return (
        f"There are no keys in {where}: a service makes its first when it starts. "
        "The state of another service is named by --state or STATE_DIR."
    )


def _print_key(key: "PublicKey", *, is_current: bool) -> None:
    """Print the key as `GET /signing-keys` has it."""
    from service.signing.signing_key_list import SigningKey

    print_json(SigningKey.of(key, is_current=is_current).model_dump())


@contextmanager
def _signing_keys(state: Path | None) -> "Iterator[SigningKeys]":
    """Open the keys of a state directory. An error is one line, and exit status 2."""
    from service.signing.signing_keys import SigningKeys, SigningKeyUnusable

    settings = settings_of(state)
    os.umask(0o077)  # as in `tracehouse serve`, because a state directory may be made here
    try:
        yield SigningKeys(settings.signing_keys, settings.signing_key)
    except SigningKeyUnusable as error:
        refuse(f"{error}.")
