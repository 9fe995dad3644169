"""python -m migrations.check [URL ...]: whether the migrations make the tables that the service uses.

On a new SQLite database, and on each PostgreSQL that is named, in a schema of its own that is dropped again. What is
missing is printed as the body of the next migration.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import Connection, make_url, text

import migrations
from service.storage.tables import metadata
from service.storage.transactions import Transactions, connect


def main(urls: list[str]) -> None:
    with TemporaryDirectory() as directory:
        missing = _missing(f"sqlite:///{Path(directory, 'check.db')}")
    for url in urls:
        with empty_schema(url) as schema_url:
            missing += _missing(schema_url)
    sys.exit(missing or None)


@contextmanager
def empty_schema(url: str) -> Iterator[str]:
    """The URL of a new schema in a PostgreSQL database."""
    schema = f"check_{uuid4().hex}"
    _execute(url, f"CREATE SCHEMA {schema}")
    try:
        inside = make_url(url).update_query_dict({"options": f"-csearch_path={schema}"})
        yield inside.render_as_string(hide_password=False)
    finally:
        _execute(url, f"DROP SCHEMA {schema} CASCADE")


def _execute(url: str, statement: str) -> None:
    transactions = Transactions(connect(url))
    with transactions.write() as connection:
        connection.execute(text(statement))
    transactions.close()


def _missing(url: str) -> str:
    transactions = Transactions(connect(url))
    with transactions.write() as connection:
        migrations.upgrade(connection)
        missing = difference(connection)
    transactions.close()
    return missing


def difference(connection: Connection) -> str:
    """What the next migration would have to do, as its body; empty if the tables agree."""
    steps = produce_migrations(MigrationContext.configure(connection), metadata).upgrade_ops
    return "" if steps is None or steps.is_empty() else f"{connection.dialect.name}:\n{render_python_code(steps)}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
