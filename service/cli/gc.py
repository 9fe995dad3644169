"""`tracehouse gc`: removes what is kept no longer, and files that nothing names; also while the service runs."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from service.cli.environment import settings_of
from service.cli.json_output import Json, print_json
from service.cli.usage_errors import refuse
from service.domain.audit import COMMAND
from service.domain.errors import FilesInUse, ReleaseTooOld
from service.domain.retention import Sweep
from tracehouse.errors import ServiceError


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    as_json: Json = False,
    state: Annotated[Path | None, typer.Option(help="Directory of the service's database.")] = None,
) -> None:
    """Remove what the settings say is kept no longer, and files that nothing names. What a model version names stays.

    The settings are REQUESTS_KEPT_DAYS, TENANT_KEPT_MAX_BYTES, EVENTS_KEPT_DAYS and FILES_KEPT_DAYS. The service may
    run meanwhile.
    """
    from service.limits import cache_limits, retention_rules  # these import SQLAlchemy: no other command waits for it
    from service.storage.database import Store, sqlite_file
    from service.storage.object_store import BlobUrlUnusable

    settings = settings_of(state)
    os.umask(0o077)  # as in `tracehouse serve`
    file = sqlite_file(settings.database)
    if file is not None and not file.exists():
        refuse(f"There is no Tracehouse state in {file.parent}; say where it is with --state.")
    try:
        with closing(Store.open(settings.database, settings.blobs, cache_limits(settings))) as store:
            rules = retention_rules(settings)
            swept = store.retention.plan(rules) if dry_run else store.retention.sweep(rules, by=COMMAND)
    except BlobUrlUnusable as error:
        refuse(f"{error}.")
    except ReleaseTooOld as error:
        refuse(f"Nothing is removed: {error.detail}. {error.facts['remedy']}")
    except ServiceError as error:
        refuse(f"{error.title()}: {error.remedy() or error.detail}")
    except OSError as error:
        refuse(f"Cannot use {settings.state_dir} as the state directory ({error.strerror}).")
    if as_json:
        print_json({"is_dry_run": dry_run, **swept.model_dump(mode="json")})
    else:
        _print(swept, dry_run=dry_run)
    if swept.are_files_in_use:
        refuse(f"{FilesInUse.title()}: {FilesInUse.remedy()}")


def _print(swept: Sweep, *, dry_run: bool) -> None:
    for one in swept.requests:
        typer.echo(f"trace request {one.id} of {one.tenant}, {one.stored_bytes} bytes ({one.reason})")
    typer.echo(f"{'would remove' if dry_run else 'removed'}:")
    counted = sum(one.stored_bytes for one in swept.requests)
    typer.echo(f"  trace requests: {len(swept.requests)}, {counted} bytes of quotas")
    typer.echo(f"  artifacts: {swept.artifacts}, {swept.artifact_bytes} bytes of quotas")
    typer.echo(f"  events: {swept.events}, {swept.event_bytes} bytes of quotas")
    typer.echo(f"  files: {swept.files}, {swept.file_bytes} bytes of the disk")
