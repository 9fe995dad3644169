from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, inspect, text

import migrations
from migrations.check import difference
from service.storage.transactions import Transactions, connect


@pytest.fixture
def connection(database_url: str, tmp_path) -> Iterator[Connection]:
    """To a database with nothing in it."""
    (tmp_path / "state").mkdir()
    transactions = Transactions(connect(database_url))
    with transactions.write() as connection:
        yield connection
    transactions.close()


def test_the_migrations_make_the_tables(connection):
    assert difference(connection) != ""

    migrations.upgrade(connection)

    assert difference(connection) == ""


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("ALTER TABLE models DROP COLUMN last_revision", "last_revision"),
        ("ALTER TABLE models ADD COLUMN surplus TEXT", "surplus"),
        ("DROP INDEX ix_trace_requests_created_at_id", "ix_trace_requests_created_at_id"),
        ("DROP TABLE aliases", "aliases"),
    ],
)
def test_what_the_migrations_leave_out_is_found(connection, change, missing):
    migrations.upgrade(connection)

    connection.execute(text(change))

    assert missing in difference(connection)


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(connection):
    migrations.upgrade(connection)
    connection.execute(text("INSERT INTO models VALUES ('net', 1, 1)"))

    migrations.upgrade(connection)

    assert connection.scalar(text("SELECT count(*) FROM models")) == 1


def test_the_newest_revision_is_the_one_that_is_stored(connection):
    migrations.upgrade(connection)

    assert inspect(connection).has_table("alembic_version")
    assert connection.scalar(text("SELECT version_num FROM alembic_version")) == migrations.HEAD
