"""python -m migrations.check [URL ...]: whether the migrations make the tables that the service uses.

On a new SQLite database, and on each PostgreSQL that is named, in a schema of its own that is dropped again. What is
missing is printed as the body of the next migration. So is that documents in the tables have another form: a release
that knows a revision reads all that was written by it.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from pydantic import TypeAdapter
from sqlalchemy import Connection, make_url, text

import migrations
from service.domain.environment import Environment
from service.domain.event import EventKind
from service.domain.trace_request import Stage, State
from service.storage.tables import Document, metadata
from service.storage.transactions import Transactions, connect
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.spec.trace_spec import TraceSpec

_WORDS = {"title", "description", "examples"}


def main(urls: list[str]) -> None:
    with TemporaryDirectory() as directory:
        missing = _missing(f"sqlite:///{Path(directory, 'check.db')}")
    for url in urls:
        with empty_schema(url) as schema_url:
            missing += _missing(schema_url)
    sys.exit(missing + other_documents() or None)


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
    context = MigrationContext.configure(connection, opts={"include_name": _is_own})
    steps = produce_migrations(context, metadata).upgrade_ops
    return "" if steps is None or steps.is_empty() else f"{connection.dialect.name}:\n{render_python_code(steps)}\n"


def _is_own(name: str | None, kind: str, _parents: object) -> bool:
    return not (kind == "table" and name is not None and name.startswith("procrastinate_"))


def other_documents() -> str:
    """What the next migration would have to say of the documents in the tables; empty if they are as it says."""
    digest = hashlib.sha256(json.dumps(_forms(), sort_keys=True).encode()).hexdigest()[:16]
    return "" if migrations.find_documents() == digest else f'documents: another form\n    documents = "{digest}"\n'


def _forms() -> list[Any]:
    """Return the JSON schemas of what releases read of each other, without the words that explain them."""
    columns = [column for table in metadata.sorted_tables for column in table.columns]
    kinds = [column.type.kind for column in columns if isinstance(column.type, Document)]
    kinds += [TraceSpec, dict[str, BlobRef], Artifact, State, Stage, EventKind]  # their columns are plain texts
    kinds += [Environment]  # a file in the state directory
    return [_without_words(TypeAdapter(kind).json_schema()) for kind in kinds]


def _without_words(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_words(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_words(one) for name, one in schema.items() if name not in _WORDS or isinstance(one, dict)}


if __name__ == "__main__":
    main(sys.argv[1:])
