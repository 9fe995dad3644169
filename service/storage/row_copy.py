"""Row copies: all rows of a service's database, brought as they are to another one that has none."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import (
    Connection,
    Table,
    TableClause,
    Text,
    column,
    exists,
    func,
    insert,
    inspect,
    literal,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service.domain.trace_request import State
from service.storage import tables
from service.storage.attempt_ends import BACK_TO_QUEUED
from service.storage.trace_request_rows import change_row, running_attempt
from tracehouse.byte_units import MIB

# The processes that work on a database now.
_OF_PROCESSES = (tables.workers,)
# What the migrations note.
_OF_MIGRATIONS = (tables.oldest_release,)
# A row may have megabytes.
_ROWS_READ = 20
_BATCH_ROWS = 1000
_BATCH_CHARACTERS = 4 * MIB

_request = tables.trace_requests.c


class RowsNotCopied(Exception):
    """The other database did not take the rows; the text says which and why."""


def count_rows(connection: Connection) -> Counter[str]:
    """Return how many rows each table has that is copied."""
    query = {one.name: select(func.count()).select_from(one) for one in _copied_tables()}
    return +Counter({name: connection.execute(one).scalar_one() for name, one in query.items()})


def count_running(connection: Connection) -> int:
    """Return how many trace requests run."""
    return int(connection.execute(select(func.count()).where(_request.state == State.RUNNING.value)).scalar_one())


def filled_tables(connection: Connection) -> list[str]:
    """Return the tables that have rows, of those that are there."""
    there = {*inspect(connection).get_table_names()}
    return [
        one.name
        for one in tables.metadata.sorted_tables
        if one.name in there
        and one not in _OF_MIGRATIONS
        and connection.scalar(select(exists(select(literal(1)).select_from(one))))
    ]


def lock_tables(connection: Connection) -> None:
    """Let nobody else write to any table of PostgreSQL until the transaction ends."""
    names = ", ".join(one.name for one in tables.metadata.sorted_tables)
    connection.execute(text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def copy_rows(source: Connection, target: Connection) -> Counter[str]:
    """Copy all rows into the tables of a PostgreSQL, which are empty, within its transaction; return their numbers.

    New rows will get numbers after those of the old ones. Raises RowsNotCopied.
    """
    copied: Counter[str] = Counter()
    for one in _copied_tables():
        try:
            for batch in _batches(source, _as_stored(one)):
                target.execute(insert(_as_stored(one)), batch)
                copied[one.name] += len(batch)
            _go_on_counting(target, one)
        except SQLAlchemyError as error:
            said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
            raise RowsNotCopied(f"table {one.name}: {said.strip().partition(chr(10))[0]}") from error
    return copied


def queue_running(connection: Connection) -> int:
    """Queue again what was running when its process was killed, and return how many these are."""
    query = select(_request.id, _request.attempt).where(_request.state == State.RUNNING.value)
    running = connection.execute(query).all()
    for request_id, attempt in running:
        change_row(connection, *running_attempt(request_id, attempt), **BACK_TO_QUEUED)
    return len(running)


def _copied_tables() -> list[Table]:
    """Return the tables in the order in which rows can be written: what others name comes first."""
    return [one for one in tables.metadata.sorted_tables if one not in (*_OF_PROCESSES, *_OF_MIGRATIONS)]


def _as_stored(stored: Table) -> TableClause:
    """Return the table with its documents as the text that they are, so that one that cannot be read is copied too."""
    kinds = {one.name: Text() if isinstance(one.type, tables.Document) else one.type for one in stored.columns}
    return table(stored.name, *(column(name, kind) for name, kind in kinds.items()))


def _batches(connection: Connection, stored: TableClause) -> Iterator[list[dict[str, Any]]]:
    """Yield all rows, as many at a time as fit into a few megabytes."""
    batch: list[dict[str, Any]] = []
    characters = 0
    for row in connection.execute(select(stored), execution_options={"yield_per": _ROWS_READ}).mappings():
        batch.append(dict(row))
        characters += _characters(row)
        if len(batch) == _BATCH_ROWS or characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _characters(row: Mapping[Any, Any]) -> int:
    return sum(len(value) for value in row.values() if isinstance(value, str))


def _go_on_counting(connection: Connection, stored: Table) -> None:
    """Set what numbers the table's new rows, if something does, to the highest number that there is."""
    numbered = stored.autoincrement_column
    if numbered is None:
        return
    sequence = func.pg_get_serial_sequence(stored.name, numbered.name)
    highest = select(func.max(numbered)).scalar_subquery()
    connection.execute(select(func.setval(sequence, highest)))
