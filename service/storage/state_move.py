"""State moves: the rows and files of a state directory, brought to a PostgreSQL and to where its files are kept.

Files go first, so that no row names missing bytes; the rows are one transaction. So whoever is cut begins again, and
sends only the files that are not there.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, cast, select
from sqlalchemy.exc import SQLAlchemyError

import migrations
from service.domain.errors import StorageUnavailable
from service.storage import tables
from service.storage.blob_copy import CopiedBlobs, blobs_in, copy_blobs
from service.storage.blobs import Blobs
from service.storage.database import describe_fault
from service.storage.row_copy import (
    RowsNotCopied,
    copy_rows,
    count_rows,
    count_running,
    filled_tables,
    lock_tables,
    queue_running,
)
from service.storage.transactions import Transactions, connect

_ROWS_READ = 20
_UNREADABLE = "The database of the state directory cannot be read"
# Where rows name blobs.
_NAMING = (
    tables.sources.c.files,
    tables.trace_requests.c.outputs,
    tables.artifacts.c.manifest,
    tables.live_checks.c.counterexamples,
)


class NotMoved(Exception):
    """The state cannot be moved. The text says why, and has nothing of a URL in it."""


class OtherRevision(NotMoved):
    """The tables in the state directory are not those of this release. `revision` is None if there are none."""

    def __init__(self, revision: str | None) -> None:
        super().__init__(f"its tables are at revision {revision}, and this release needs {migrations.HEAD}")
        self.revision = revision

    @property
    def is_newer(self) -> bool:
        return self.revision is not None and self.revision > migrations.HEAD


class StateMove:
    """A move that can be made. Nobody writes to the database in the state directory meanwhile."""

    def __init__(self, source: Connection, target: Transactions) -> None:
        self._source = source
        self._target = target

    def copy_files(self, source: Blobs, target: Blobs, *, dry_run: bool = False) -> CopiedBlobs:
        """Copy the files that are not there; with `dry_run`, only read them. Raises FilesUnavailable."""
        if not dry_run:  # the first call leaves a mark there
            target.ping()
        return copy_blobs(source, target, dry_run=dry_run)

    def missing_files(self, copied: CopiedBlobs) -> set[str]:
        """Return the digests of files that rows name, and that were not there to be copied."""
        named = {digest for column in _NAMING for text in self._texts(column) for digest in _blobs_named(text)}
        return named - copied.there - copied.damaged

    def count_rows(self) -> Mapping[str, int]:
        return count_rows(self._source)

    def count_running(self) -> int:
        return count_running(self._source)

    def copy_rows(self) -> tuple[Mapping[str, int], int]:
        """Copy all rows or none; return their numbers, and how many trace requests are queued again.

        Raises NotMoved.
        """
        try:
            with _describing("The rows were not copied"), self._target.write() as connection:
                migrations.upgrade(connection)
                lock_tables(connection)
                _require_empty(connection)
                return copy_rows(self._source, connection), queue_running(connection)
        except RowsNotCopied as error:
            raise NotMoved(f"The rows were not copied: {error}") from error

    def _texts(self, column: ColumnElement[Any]) -> Iterator[str]:
        query = select(cast(column, Text)).where(column.is_not(None))
        return iter(self._source.scalars(query, execution_options={"yield_per": _ROWS_READ}))


@contextmanager
def open_move(file: Path, database_url: str) -> Iterator[StateMove]:
    """Open the SQLite database of a state directory, and the PostgreSQL that it goes to. Raises NotMoved."""
    with ExitStack() as opened:
        source = opened.enter_context(closing(Transactions(connect(f"sqlite:///{file}"))))
        target = opened.enter_context(closing(Transactions(connect(database_url, is_limited=False))))
        with _describing(_UNREADABLE), source.read() as connection:
            revision = migrations.find_revision(connection)
        if revision != migrations.HEAD:
            raise OtherRevision(revision)
        with _describing("The target database cannot be used"), target.read() as connection:
            _require_empty(connection)
        # It writes nothing: as long as it lasts, others cannot.
        with _describing(_UNREADABLE), source.write() as connection:
            yield StateMove(connection, target)


def _blobs_named(text: str) -> Iterator[str]:
    with suppress(ValueError):  # the service cannot read it either
        yield from blobs_in(json.loads(text))


def _require_empty(connection: Connection) -> None:
    """Raises NotMoved."""
    if (migrations.find_revision(connection) or "") > migrations.HEAD:
        raise NotMoved("A newer release made the tables of the target database")
    filled = filled_tables(connection)
    if filled:
        raise NotMoved(f"The target database has rows already, in {', '.join(filled)}: a move needs an empty one")


@contextmanager
def _describing(what: str) -> Iterator[None]:
    try:
        yield
    except (StorageUnavailable, SQLAlchemyError) as error:
        raise NotMoved(f"{what}: {describe_fault(error)}") from error
