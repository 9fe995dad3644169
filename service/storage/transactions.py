"""Transactions: where each begins and ends, and where the database's errors become StorageUnavailable.

What a newer release has written, and this one cannot read, becomes ReleaseTooOld.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from time import monotonic, sleep
from typing import Any

from sqlalchemy import Connection, Engine, Row, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from service.domain.errors import StorageUnavailable
from service.storage.changes import Changes
from service.storage.notices import Notice, tell
from service.storage.releases import reading_tables
from service.storage.written_rows import Owned, WrittenRows, begin_noting, note_written

_CHANGED = "trace requests with new events"
_NOTICES = "notices to other processes"

AnyRow = Row[*tuple[Any, ...]]

_BUSY_S = 10
_PRAGMAS = (f"busy_timeout = {_BUSY_S * 1000}", "synchronous = FULL", "foreign_keys = ON")


class Transactions:
    def __init__(self, engine: Engine) -> None:
        self.changes = Changes()
        self.engine = engine
        self._written = WrittenRows()
        event.listen(engine, "before_cursor_execute", note_written)
        self._writing = engine.execution_options(writes=True)
        # SQLite lets one thread write at a time, and waiting threads poll: the unluckiest of 16 waited 2 to 5 s,
        # and with this lock 0.2 s.
        self._write_lock: AbstractContextManager[object] = Lock() if engine.dialect.name == "sqlite" else nullcontext()

    @property
    def is_shared(self) -> bool:
        """Whether processes on several hosts may use the database at a time."""
        return self.engine.dialect.name == "postgresql"

    def last_write(self, owner: str, *tables: Table) -> int:
        """Return a number that is another one after each transaction of this process that writes the owner's rows."""
        return self._written.last(owner, *tables)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with translate_errors(), reading_tables(self.engine), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Read one state of the whole database, whatever others write meanwhile, as each transaction of SQLite does."""
        level = {} if self.engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        engine = self.engine.execution_options(**level)
        with translate_errors(), reading_tables(self.engine), engine.begin() as connection:
            if self.is_shared:  # many rows take their time between two statements, and nobody waits for what is read
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Write all of the block or nothing; once it is on disk, notify those who wait for the changed requests."""
        began = self._writing.begin()
        changed: set[str] = set()
        notices: set[Notice] = set()
        written: set[Owned] = set()
        try:
            with translate_errors(), reading_tables(self.engine), self._write_lock, began as connection:
                begin_noting(connection, written)
                connection.info.update({_CHANGED: changed, _NOTICES: notices})
                yield connection
                if self.engine.dialect.name == "postgresql":
                    tell(connection, notices.union(Notice("changed", request_id) for request_id in changed))
                self._written.expect(written)
            self._written.count(written)
        finally:
            self._written.expect_no_more(written)
        self.changes.notify(changed)

    def close(self) -> None:
        self.engine.dispose()


def mark_changed(connection: Connection, request_id: str) -> None:
    """Notify those who wait for the trace request's events once the transaction has succeeded."""
    connection.info[_CHANGED].add(request_id)


def announce(connection: Connection, notice: Notice) -> None:
    """Tell all processes on the same database, this one too, once the transaction has succeeded. SQLite has one."""
    connection.info[_NOTICES].add(notice)


def connect(database_url: str, *, is_limited: bool = True) -> Engine:
    """Connect to SQLite or PostgreSQL, set up so that the rest of storage need not know which.

    Unless it `is_limited`, a statement may take as long as it likes. Raises StorageUnavailable if packages are missing.
    """
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite":
        return _sqlite(create_engine(url, hide_parameters=True))  # parameters may be secrets, and errors are logged
    try:  # an extra, which SQLite does not need
        import procrastinate  # noqa: F401 - `jobs` has its queries run

        from service.storage.postgresql import connect_postgresql
    except ImportError as error:
        missing = f"PostgreSQL needs packages that are not installed ({error})"
        raise StorageUnavailable(f"{missing}: pip install 'tracehouse-service[postgres]'") from error
    return connect_postgresql(url, is_limited=is_limited)


def upsert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an INSERT that may have ON CONFLICT: both databases write it alike, but SQLAlchemy does not."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def _sqlite(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def _(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # otherwise the driver begins transactions itself, late and never for reads
        for pragma in _PRAGMAS:
            raw.execute(f"PRAGMA {pragma}")
        _write_ahead(raw)

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        # A transaction that reads first and writes later fails at once if another has written in between, whatever the
        # busy timeout: so a writer takes the lock before it reads.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(raw: sqlite3.Connection) -> None:
    """Let readers go on while one process writes. The file remembers the mode, so only the first call changes it."""
    until = monotonic() + _BUSY_S
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            # If two processes do this to a new file at once, one is refused whatever its busy timeout.
            if monotonic() > until:
                raise
            sleep(0.01)


def is_lost(error: Exception) -> bool:
    """Whether the connection to the database was lost, or none was made, so that nothing else is at fault."""
    cause = error.__cause__ if isinstance(error, StorageUnavailable) else None
    if isinstance(cause, NoConnection):
        return True
    if not isinstance(cause, DBAPIError):
        return False
    # A COMMIT has no statement either. What PostgreSQL says has a state, and SQLite has no connection to lose.
    says_nothing = getattr(cause.orig, "sqlstate", "") is None
    return cause.connection_invalidated or (cause.statement is None and says_nothing)


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except NoConnection as error:
        raise StorageUnavailable("the database does not answer") from error
    except DBAPIError as error:
        # Whatever else the database says as it ends a connection: another one may do.
        if not isinstance(error, (OperationalError, InterfaceError)) and not error.connection_invalidated:
            raise
        raise StorageUnavailable("the database does not answer") from error
