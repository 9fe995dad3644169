"""`tracehouse migrate-state`: brings a state directory's rows to a PostgreSQL, and its files to S3 or elsewhere."""

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.shared_storage import names_postgresql
from service.cli.state_lock import lock_state
from service.cli.usage_errors import refuse
from service.settings import Settings
from tracehouse.errors import ServiceError

if TYPE_CHECKING:
    from service.storage.blob_copy import CopiedBlobs
    from service.storage.state_move import OtherRevision

_NAMED_MAX = 20
_MOVED = ("tracehouse.db", "tracehouse.db-wal", "tracehouse.db-shm", "blobs", "lock")
_REMAINING = {
    "signing": "the private key, if SIGNING_KEY names no other, and the public keys of earlier ones. Copy it, or "
    "artifacts are signed with another key, and what was signed shows nothing any more",
    "environments": "packages for submitted code. Copy it to hosts with the same Python and torch; elsewhere, "
    "`tracehouse environments create` makes them anew",
    "bitwise": "which models answer with the same bytes in any call, on this kind of machine. Copy it, or it is "
    "found out again",
    "forms": "which form of an artifact is the fastest on this kind of machine. Copy it, or the forms are raced again",
    "threads": "with how many threads an artifact answers best on this kind of machine. Copy it, or that is measured "
    "again",
    "cache": "copies of files that are kept elsewhere. Leave it",
}
_UNKNOWN = "nothing that this release put there"


def migrate_state(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read all, say what would be moved, move nothing.")
    ] = False,
    leave_damaged: Annotated[
        bool, typer.Option("--leave-damaged", help="Move all else if files are damaged or missing.")
    ] = False,
    as_json: Json = False,
    state: Annotated[Path | None, typer.Option(help="Directory of the database and the files to move.")] = None,
) -> None:
    """Copy a stopped service's SQLite and its files to the PostgreSQL of DATABASE_URL and the place of BLOB_URL.

    The state directory stays as it is. The database has to be empty; its tables are made. If the command is cut, run it
    again: the rows come all at once or not at all, and files that are there are not sent again.
    """
    from service.storage.blob_cache import CacheLimits  # these import SQLAlchemy: no other command waits for it
    from service.storage.blob_places import open_blobs
    from service.storage.object_store import BlobUrlUnusable
    from service.storage.state_move import NotMoved, OtherRevision, open_move

    settings = settings_of(state)
    _require_target(settings)
    directory = settings.state_dir.absolute()
    file = directory / "tracehouse.db"
    if not file.exists():
        refuse(f"There is no Tracehouse state in {directory}; say where it is with --state.")
    os.umask(0o077)  # as in `tracehouse serve`
    try:
        with _lock(directory), _staging(settings.blob_cache) as staging, open_move(file, settings.database) as move:
            source = open_blobs((directory / "blobs").as_uri())
            target = open_blobs(settings.blobs, CacheLimits(directory=staging, max_bytes=0))
            target.clear_staging()
            files = move.copy_files(source, target, dry_run=dry_run)
            missing = move.missing_files(files)
            if not as_json:
                _print_files(files, missing, dry_run=dry_run)
            if (files.damaged or missing) and not leave_damaged:
                if as_json:
                    print_json({"is_dry_run": dry_run, "files": _file_document(files, missing), "rows": None})
                refuse(
                    "No rows were moved, for these files would be lacking. Put them back from a backup into "
                    f"{directory / 'blobs' / 'sha256'} and run this again; or move all else with --leave-damaged: what "
                    "needs one of them is refused until somebody sends or traces the same again."
                )
            rows, queued = (move.count_rows(), move.count_running()) if dry_run else move.copy_rows()
    except OtherRevision as error:
        refuse(_describe_revision(error, directory))
    except (NotMoved, BlobUrlUnusable) as error:
        refuse(f"{error}.")
    except ServiceError as error:
        refuse(f"{error.title()}: {error.detail}. Run this again: files that are there are not sent again.")
    except OSError as error:
        refuse(f"Cannot use {error.filename or directory} ({error.strerror or error}).")
    if as_json:
        document = {
            "is_dry_run": dry_run,
            "files": _file_document(files, missing),
            "rows": {str(table): count for table, count in rows.items()},  # the names are SQLAlchemy's own strings
            "queued_again": queued,
            "remaining": _remaining(directory),
        }
        print_json(document)
        return
    _print_rows(rows, queued, dry_run=dry_run)
    _print_remaining(directory)


def _require_target(settings: Settings) -> None:
    if not names_postgresql(settings):
        refuse(
            "Set DATABASE_URL to the PostgreSQL to which the rows are to go, such as "
            "postgresql://tracehouse@db.example.com/tracehouse."
        )
    if settings.blob_url is None:
        refuse(
            "Set BLOB_URL to where the files are to go, such as s3://bucket/folder or file:///shared/files. "
            f"{(settings.state_dir.absolute() / 'blobs').as_uri()} leaves them where they are."
        )


def _lock(state: Path) -> AbstractContextManager[object]:
    """Let no service start on the state directory meanwhile."""
    locked = ExitStack()
    try:
        locked.enter_context(lock_state(state))
    except BlockingIOError:
        refuse(f"A service uses {state}, or another command moves it: stop the service first.")
    return locked


@contextmanager
def _staging(cache: Path) -> Iterator[Path]:
    """Give a directory for files on their way to S3. What a killed command left there goes, too."""
    directory = cache / "moving"
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # a service has made it, and has files in it
            cache.rmdir()


def _describe_revision(error: "OtherRevision", state: Path) -> str:
    if error.revision is None:
        return f"{state / 'tracehouse.db'} has no tables of Tracehouse."
    if error.is_newer:
        return f"A newer release made the tables in {state} (revision {error.revision}): run this with that release."
    return (
        f"The tables in {state} are those of an earlier release ({error}). Bring them to this one first: "
        f"env -u DATABASE_URL -u DATABASE_PASSWORD_FILE tracehouse migrate --state {state}"
    )


def _print_files(files: "CopiedBlobs", missing: Collection[str], *, dry_run: bool) -> None:
    done = "would be copied" if dry_run else "copied"
    typer.echo(f"files: {files.copied} {done}, {files.copied_bytes} bytes; {files.kept} were there")
    for what, digests in (("damaged", files.damaged), ("missing", missing)):
        for digest in sorted(digests)[:_NAMED_MAX]:
            typer.echo(f"  {what}: {digest}")
        if len(digests) > _NAMED_MAX:
            typer.echo(f"  {what}: {len(digests) - _NAMED_MAX} more")


def _file_document(files: "CopiedBlobs", missing: Collection[str]) -> dict[str, Any]:
    return {
        "copied": files.copied,
        "copied_bytes": files.copied_bytes,
        "kept": files.kept,
        "damaged": sorted(files.damaged),
        "missing": sorted(missing),
    }


def _print_rows(rows: Mapping[str, int], queued: int, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    tables = ", ".join(f"{name} {count}" for name, count in rows.items())
    typer.echo(f"rows: {sum(rows.values())} {would}copied{f' ({tables})' if tables else ''}")
    typer.echo(f"trace requests that were running: {queued} {would}queued again")


def _print_remaining(state: Path) -> None:
    """Say what else is in the state directory, and what to do with it."""
    typer.echo(f"A service with --state {state} finds the rest there. For one with another state directory:")
    for name, what in _remaining(state).items():
        typer.echo(f"  {name}: {what}")
    typer.echo("Keep what was moved until the new service answers, and start none on it without DATABASE_URL.")


def _remaining(state: Path) -> dict[str, str]:
    """Return what else is in the state directory, and what to do with each."""
    names = sorted(path.name for path in state.iterdir() if path.name not in _MOVED)
    return {name: _REMAINING.get(name, _UNKNOWN) for name in names}
