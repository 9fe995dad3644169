"""Written rows: whose rows the transactions of this process have written, so that what is remembered of others stays.

A table whose `info` has an `owner` says so: the rows belong to whatever that column names.
"""

from threading import Lock
from typing import Any

from sqlalchemy import BinaryExpression, BindParameter, Column, ColumnElement, Connection, Delete, Insert, Table, Update
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import BooleanClauseList
from sqlalchemy.sql.operators import and_, eq

_WRITTEN = "whose rows were written"
_ALL = None  # in place of an owner
# Pairs of a table and an owner, some hundred bytes each. Chosen.
_REMEMBERED_MAX = 10_000

Owned = tuple[str, str | None]


class WrittenRows:
    """Numbers the transactions, and keeps for each table and owner the number of the last that has written."""

    def __init__(self) -> None:
        self._number = 0
        self._last: dict[Owned, int] = {}
        self._forgotten = 0  # the last number of whoever is kept no more
        self._counting = Lock()
        self._expected: list[set[Owned]] = []  # of transactions that end now: others can read the rows, or not yet

    def expect(self, written: set[Owned]) -> None:
        """Give out no number of these rows twice until `expect_no_more` is called."""
        with self._counting:
            self._expected = [*self._expected, written]

    def expect_no_more(self, written: set[Owned]) -> None:
        with self._counting:
            self._expected = [one for one in self._expected if one is not written]

    def count(self, written: set[Owned]) -> None:
        """Count a transaction that has written these rows, once others can read them."""
        if not written:
            return
        with self._counting:
            self._number += 1
            if len(self._last) + len(written) > _REMEMBERED_MAX:
                self._forgotten = self._number
                self._last = {}
            self._last.update(dict.fromkeys(written, self._number))

    def last(self, owner: str, *tables: Table) -> int:
        """Return the number of the last transaction that may have written rows of this owner to one of the tables."""
        expected = self._expected
        owned = {(table.name, one) for table in tables for one in (owner, _ALL)} if expected else set()
        if any(not owned.isdisjoint(written) for written in expected):
            with self._counting:
                self._number += 1
                return self._number
        last = self._last  # before the number, which `count` sets first
        number = self._forgotten
        for table in tables:
            number = max(number, last.get((table.name, owner), 0), last.get((table.name, _ALL), 0))
        return number


def begin_noting(connection: Connection, written: set[Owned]) -> None:
    """Have the set get whose rows are written until the transaction ends."""
    connection.info[_WRITTEN] = written


def note_written(connection: Connection, _cursor: object, _sql: str, _values: object, context: Any, _: bool) -> None:
    """Note whose rows an INSERT, UPDATE or DELETE writes; where they may be anybody's, those of all.

    SQLAlchemy calls this before each statement. It sees no writes in text, nor within a CTE.
    """
    compiled = context.compiled
    statement = compiled.statement if isinstance(compiled, SQLCompiler) else None
    if not isinstance(statement, Insert | Update | Delete) or not isinstance(statement.table, Table):
        return
    if "owner" in statement.table.info:
        owner = _find_owner(compiled, statement, statement.table.c[statement.table.info["owner"]])
        owners = {_ALL if owner is None else values.get(owner, _ALL) for values in context.compiled_parameters}
        connection.info.get(_WRITTEN, set()).update((statement.table.name, one) for one in owners)


def _find_owner(compiled: SQLCompiler, statement: Insert | Update | Delete, column: Column[Any]) -> str | None:
    """Return the name of the parameter that has the owner of the rows; None if they may be anybody's."""
    if isinstance(statement, Insert):
        return column.key
    if column.key in compiled.params:  # an UPDATE that gives rows to another owner
        return None
    for condition in [] if statement.whereclause is None else _conditions(statement.whereclause):
        if isinstance(condition, BinaryExpression) and condition.operator is eq and _is(condition.left, column):
            given = condition.right
            return compiled.bind_names.get(given) if isinstance(given, BindParameter) else None
    return None


def _is(given: object, column: Column[Any]) -> bool:
    return isinstance(given, Column) and given.table is column.table and given.key == column.key


def _conditions(where: ColumnElement[bool]) -> list[ColumnElement[Any]]:
    """Return conditions that all hold."""
    if isinstance(where, BooleanClauseList) and where.operator is and_:
        return [condition for clause in where.clauses for condition in _conditions(clause)]
    return [where]
