"""Migrations: the steps that made the tables what `service.storage.tables` says. The same for both databases."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from service.domain.errors import StorageUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

HERE = Path(__file__).parent

# A revision is called after its file's number, so that the newest is known without importing alembic.
HEAD = max(path.name[:4] for path in HERE.glob("versions/[0-9]*.py"))

# Any number that nobody else takes on this database.
_ADVISORY_LOCK = 7_223_041


def upgrade(connection: Connection, target: str = HEAD) -> str | None:
    """Bring the tables to the target, inside the connection's transaction; of several processes, one after the other.

    Return the revision that they had, None if there were none. An older service refuses a newer database, with
    StorageUnavailable.
    """
    if find_revision(connection) == target:
        return target
    if connection.dialect.name == "postgresql":
        # SQLite needs no such lock: its write transaction is one.
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADVISORY_LOCK})
    revision = find_revision(connection)
    if revision is not None and revision > HEAD:
        raise StorageUnavailable("a newer release made this database", revision=revision, known=HEAD)
    if revision != target:
        _run(connection, target)
    return revision


def downgrade(connection: Connection, target: str) -> None:
    """Bring the tables back to an earlier revision, for an older service. The steps from 0008 on have a way back."""
    from alembic import command

    command.downgrade(_config(connection), target)


def find_revision(connection: Connection) -> str | None:
    """Return the revision of the tables; None if there are none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def _run(connection: Connection, target: str) -> None:
    from alembic import command

    command.upgrade(_config(connection), target)


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    return config
