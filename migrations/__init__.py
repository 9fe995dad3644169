"""Migrations: the steps that made the tables what `service.storage.tables` says. The same for both databases.

The number of the newest step, the revision, also stands for the form of the documents in the tables: whoever changes
what a release writes into one adds a step, which may do nothing. Requests and artifacts have the revision by which they
were written.

A step that says `adds_only = True` lets processes of the release before go on. Nothing that they read or write may
change:

- It adds tables, indexes that are not unique, and columns that are null or have a default of the server's.
- What it adds names rows of other tables, if at all, with ON DELETE CASCADE: an earlier release deletes those rows.
- Documents change in requests and artifacts alone. An earlier release reads others to write them anew.
- States, stages, kinds of events, verdicts, budgets and scopes stay: an earlier release has no word for another one.

Files and artifacts may be named anywhere: as long as the tables are newer than a release, it removes none.

`python -m migrations.check` compares the documents and the words with the newest step's `documents`.
"""

from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import OperationalError

from service.domain.errors import StorageUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

HERE = Path(__file__).parent

# A revision is called after its file's number, so that the newest is known without importing alembic.
HEAD = max(path.name[:4] for path in HERE.glob("versions/[0-9]*.py"))

# From this revision on, the database says which releases may use it.
_FIRST_WITH_OLDEST = "0021"

# Any number that nobody else takes on this database.
_ADVISORY_LOCK = 7_223_041

# A sweep of the release before, or a backup, may read a table for minutes.
_LOCK_S = 2
_LOCKED = ("55P03", "40P01")  # the lock is not free in time, or two wait for each other


def upgrade(connection: Connection, target: str = HEAD) -> str | None:
    """Bring the tables to the target, inside the connection's transaction; of several processes, one after the other.

    Return the revision that they had, None if there were none. Tables of a newer release stay as they are; if it does
    not let this one use them, StorageUnavailable.
    """
    if find_revision(connection) == target:
        return target
    if connection.dialect.name == "postgresql":
        # SQLite needs no such lock: its write transaction is one.
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADVISORY_LOCK})
    revision = find_revision(connection)
    if revision is not None and revision > HEAD:
        require_usable(connection)
    elif revision != target:
        _run(connection, target)
    return revision


def downgrade(connection: Connection, target: str) -> None:
    """Bring the tables back to an earlier revision, for an older service; `base` drops them.

    Raises ValueError if they have what has no place there.
    """
    from alembic import command

    config = _config(connection)
    command.downgrade(config, target)
    if target != "base":
        _note_oldest(connection, config, target)


def find_revision(connection: Connection) -> str | None:
    """Return the revision of the tables; None if there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def find_documents() -> str:
    """Return what the newest step says of the form of the documents in the tables."""
    from alembic.script import ScriptDirectory

    newest = ScriptDirectory.from_config(_config()).get_revision(HEAD)
    documents: str = newest.module.documents
    return documents


def require_usable(connection: Connection) -> None:
    """Raise StorageUnavailable if a newer release has changed the tables so that this one cannot use them."""
    oldest = _find_oldest(connection)
    if oldest > HEAD:
        raise StorageUnavailable(
            "a newer release has changed the database: update this process", oldest_revision=oldest, known=HEAD
        )


def _find_oldest(connection: Connection) -> str:
    """Return the revision of the oldest release that may use the tables: theirs, if that is not noted."""
    oldest: str | None = connection.scalar(text("SELECT revision FROM oldest_release"))
    return oldest or find_revision(connection) or HEAD


def _run(connection: Connection, target: str) -> None:
    """Run the steps. Whoever waits for a table's lock has all others wait that come later: so no wait is long."""
    if connection.dialect.name != "postgresql":
        return _run_once(connection, target)
    while True:
        try:
            with connection.begin_nested():
                connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_S}s'"))
                return _run_once(connection, target)
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) not in _LOCKED:
                raise
        sleep(_LOCK_S)


def _run_once(connection: Connection, target: str) -> None:
    from alembic import command

    config = _config(connection)
    command.upgrade(config, target)
    _note_oldest(connection, config, target)


def _note_oldest(connection: Connection, config: "Config", revision: str) -> None:
    """Note which release is the oldest that may use the tables as they are now: that of the last step that changed."""
    from alembic.script import ScriptDirectory

    if revision < _FIRST_WITH_OLDEST:
        return
    steps = ScriptDirectory.from_config(config).walk_revisions("base", revision)
    oldest = next(one.revision for one in steps if not getattr(one.module, "adds_only", False))
    connection.execute(text("DELETE FROM oldest_release"))
    connection.execute(text("INSERT INTO oldest_release (revision) VALUES (:oldest)"), {"oldest": oldest})


def _config(connection: Connection | None = None) -> "Config":
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    return config
