import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

import migrations
from migrations.check import empty_schema
from service.storage.database import open_database
from service.storage.tables import metadata, oldest_release

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
# What a schema may grow to until it is made anew: the rows of a test leave it as large as they made it.
_SCHEMA_MAX_BYTES = 2**21


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRES_URL else ["sqlite"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """`TEST_POSTGRES_URL` names a PostgreSQL on which the same is tested."""
    kind: str = request.param
    return kind


@pytest.fixture
def empty_database_url(database_kind: str, tmp_path: Path) -> Iterator[str]:
    """Of a database without tables."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'tracehouse.db'}"
        return
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url:
        yield url


@pytest.fixture
def database_url(
    database_kind: str, migrated_file: Path, _postgres_tables: "PostgresTables", tmp_path: Path
) -> Iterator[str]:
    """Of a database that has its tables, and no rows."""
    if database_kind == "sqlite":
        state = tmp_path / "state"
        state.mkdir(mode=0o700)
        shutil.copy(migrated_file, state)
        yield f"sqlite:///{state / migrated_file.name}"
        return
    yield _postgres_tables.make()
    _postgres_tables.clear()


@pytest.fixture(scope="session")
def _postgres_tables() -> Iterator["PostgresTables"]:
    tables = PostgresTables()
    yield tables
    tables.drop()


class PostgresTables:
    """Tables on PostgreSQL for one test after the other: to make them takes fifty times as long as to clear them."""

    def __init__(self) -> None:
        self._made = ExitStack()
        self._url: str | None = None

    def make(self) -> str:
        """Return the URL of tables without rows."""
        if self._url is None:
            assert POSTGRES_URL is not None
            self._url = self._made.enter_context(empty_schema(POSTGRES_URL))
            self._transactions = open_database(self._url)
            self._made.callback(self._transactions.close)
        return self._url

    def clear(self) -> None:
        """Delete all rows, or the tables if they are no longer like new ones."""
        with self._transactions.write() as connection:
            pages = select(func.sum(func.pg_total_relation_size(text("oid")))).select_from(text("pg_class"))
            size = connection.scalar(pages.where(text("relnamespace = current_schema()::regnamespace")))
            is_like_new = size < _SCHEMA_MAX_BYTES and migrations.find_revision(connection) == migrations.HEAD
            if is_like_new:
                for table in reversed(metadata.sorted_tables):
                    if table is oldest_release:  # it stays as the migrations left it
                        continue
                    connection.execute(table.delete())
                connection.execute(text("DELETE FROM procrastinate_jobs"))
                connection.execute(text("DELETE FROM procrastinate_workers"))
                connection.execute(text("ALTER SEQUENCE audit_log_id_seq RESTART"))
        if not is_like_new:
            self.drop()

    def drop(self) -> None:
        self._made.close()
        self._url = None
