"""Whose rows were written: what each statement says of that, and that nobody's is missed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import IntegrityError

from service.storage import written_rows
from service.storage.transactions import Transactions, connect
from service.storage.written_rows import WrittenRows

_metadata = MetaData()
_OWNER = Column("owner", Text, primary_key=True)
TABLE = Table(
    "things", _metadata, _OWNER, Column("name", Text, primary_key=True), Column("n", Integer), info={"owner": "owner"}
)
PLAIN = Table("plain", _metadata, Column("owner", Text, primary_key=True))
ROW = {"owner": "a", "name": "x", "n": 1}
_PUT = upsert(TABLE).values(ROW).on_conflict_do_update(index_elements=["owner", "name"], set_={"n": 2})
_MANY = update(TABLE).where(TABLE.c.owner == bindparam("whose")).values(n=3)

ITS_OWN: dict[str, Callable[[Connection], object]] = {
    "insert": lambda connection: connection.execute(insert(TABLE).values(ROW)),
    "insert of a list": lambda connection: connection.execute(insert(TABLE), [ROW, {**ROW, "name": "y"}]),
    "put": lambda connection: connection.execute(_PUT),
    "update": lambda connection: connection.execute(update(TABLE).where(TABLE.c.owner == "a").values(n=2)),
    "update of a list": lambda connection: connection.execute(_MANY, [{"whose": "a"}]),
    "delete": lambda connection: connection.execute(delete(TABLE).where(TABLE.c.n == 1, TABLE.c.owner == "a")),
}
ANYBODYS: dict[str, Callable[[Connection], object]] = {
    "insert of several": lambda connection: connection.execute(insert(TABLE).values([ROW, {**ROW, "owner": "b"}])),
    "insert of a list": lambda connection: connection.execute(insert(TABLE), [ROW, {**ROW, "owner": "b"}]),
    "insert of what is read": lambda connection: connection.execute(
        insert(TABLE).from_select(["owner", "name"], select(PLAIN.c.owner, PLAIN.c.owner))
    ),
    "update of all": lambda connection: connection.execute(update(TABLE).values(n=2)),
    "update of two": lambda connection: connection.execute(
        update(TABLE).where(or_(TABLE.c.owner == "a", TABLE.c.owner == "b")).values(n=2)
    ),
    "update of a list": lambda connection: connection.execute(_MANY, [{"whose": "a"}, {"whose": "b"}]),
    "update that gives": lambda connection: connection.execute(
        update(TABLE).where(TABLE.c.owner == "a").values(owner="b")
    ),
    "delete of some": lambda connection: connection.execute(delete(TABLE).where(TABLE.c.owner.in_(["a", "b"]))),
}


@pytest.fixture
def transactions() -> Iterator[Transactions]:
    opened = Transactions(connect("sqlite://"))
    with opened.write() as connection:
        _metadata.create_all(connection)
    yield opened
    opened.close()


def seen_by(transactions: Transactions, write: Callable[[Connection], object]) -> list[bool]:
    """Do it once the table is empty, and return whether each of two owners is told that rows of theirs were written."""
    with transactions.write() as connection:
        connection.execute(delete(TABLE))
    before = [transactions.last_write(owner, TABLE) for owner in "ab"]
    with transactions.write() as connection:
        write(connection)
    return [transactions.last_write(owner, TABLE) != number for owner, number in zip("ab", before, strict=True)]


@pytest.mark.parametrize("write", ITS_OWN.values(), ids=ITS_OWN)
def test_a_statement_for_one_owner_is_noted_of_that_one(
    transactions: Transactions, write: Callable[[Connection], object]
) -> None:
    for _ in range(2):  # the second time, SQLAlchemy has the statement compiled
        assert seen_by(transactions, write) == [True, False]


@pytest.mark.parametrize("write", ANYBODYS.values(), ids=ANYBODYS)
def test_a_statement_that_may_write_anybodys_rows_is_noted_of_each(
    transactions: Transactions, write: Callable[[Connection], object]
) -> None:
    for _ in range(2):
        assert seen_by(transactions, write) == [True, True]


def test_what_is_rolled_back_is_not_noted(transactions: Transactions) -> None:
    with pytest.raises(IntegrityError), transactions.write() as connection:
        connection.execute(insert(TABLE), [ROW, ROW])
    with transactions.write() as connection:
        connection.execute(insert(PLAIN).values(owner="a"))

    assert transactions.last_write("a", TABLE) == 0


def test_what_others_can_read_is_told_before_it_is_counted(
    transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever has just read it, or been told of it, is answered by what was there before."""
    before = [transactions.last_write(owner, TABLE) for owner in "ab"]
    told: list[list[int]] = []
    count = WrittenRows.count

    def count_late(rows: WrittenRows, written: Any) -> None:
        # Twice: who looked when the rows could not be read yet looks again.
        told.extend([transactions.last_write(owner, TABLE) for owner in "ab"] for _ in range(2))
        count(rows, written)

    monkeypatch.setattr(WrittenRows, "count", count_late)
    with transactions.write() as connection:
        connection.execute(insert(TABLE), [ROW])

    numbers = [before, *told, [transactions.last_write(owner, TABLE) for owner in "ab"]]
    assert len({of_a for of_a, _ in numbers}) == len(numbers)
    assert {of_b for _, of_b in numbers} == {before[1]}


def test_owners_beyond_some_are_all_written_anew(transactions: Transactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_rows, "_REMEMBERED_MAX", 3)
    seen: dict[str, int] = {}
    for owner in "abcdefgh":
        with transactions.write() as connection:
            connection.execute(insert(TABLE).values({**ROW, "owner": owner}))
        assert all(transactions.last_write(other, TABLE) >= number for other, number in seen.items())
        seen[owner] = transactions.last_write(owner, TABLE)
        assert seen[owner] == max(seen.values())

    assert len({*seen.values()}) == len(seen)
