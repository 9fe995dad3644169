"""Events: the changes of each trace request, numbered without gaps. They count as stored bytes of their request.

Of a request that ended long ago, retention may leave the last alone.
"""

from collections.abc import Generator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import JsonValue
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    delete,
    func,
    insert,
    select,
    update,
)

from service.domain.errors import TraceRequestNotFound
from service.domain.event import Event, EventKind
from service.domain.trace_request import State
from service.storage import jobs, tables
from service.storage.stored_bytes import text_bytes
from service.storage.transactions import AnyRow, Transactions, mark_changed
from service.storage.webhook_messages import queue_messages

_LOG_PAGE = 64
# A page ends with the event that makes it so large. A stream that nobody reads has one in memory, and as much in its
# connection. Chosen.
PAGE_BYTES = 64 * 1024
# An event without its data, with its place in the index: measured with SQLite.
_ROW_BYTES = 140


class Events:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def append(self, request_id: str, kind: EventKind, *data: dict[str, JsonValue], attempt: int | None = None) -> bool:
        """Append an event for each of these; False if the request has ended, for `end` is the last.

        With `attempt`, they are appended only while that attempt runs, and False is returned otherwise.
        Raises TraceRequestNotFound.
        """
        request = tables.trace_requests.c
        open_states = [State.QUEUED.value, State.RUNNING.value]
        take_seq = (
            update(tables.trace_requests)
            .where(request.id == request_id, request.state.in_(open_states))
            .values(events=request.events + len(data))
            .returning(request.id, request.events, request.attempt)
        )
        if attempt is not None:
            take_seq = take_seq.where(request.attempt == attempt, request.state == State.RUNNING.value)
        with self._transactions.write() as connection:
            row = connection.execute(take_seq).one_or_none()
            if row is not None:
                _record(connection, row, kind, *data)
                return True
            if connection.scalar(select(request.id).where(request.id == request_id)) is None:
                raise TraceRequestNotFound("there is no trace request with this id", id=request_id)
            return False

    def after(self, tenant: str, request_id: str, seq: int, limit: int) -> list[Event]:
        """Return the next events, oldest first, at most `limit` and no more than PAGE_BYTES beside the last.

        None if there is no such request.
        """
        event, request = tables.events.c, tables.trace_requests.c
        query = (
            select(event.request_id, event.seq, event.kind, event.data, event.created_at)
            .join(tables.trace_requests, request.id == event.request_id)
            .where(request.tenant == tenant, event.request_id == request_id, event.seq > seq)
            .order_by(event.seq)
        )
        with self._transactions.read() as connection:
            return [Event(**row._mapping) for row in _page(connection, query, limit)]

    def log(self, tenant: str, request_id: str) -> Generator[str, None, None]:
        """Yield in pieces what the model code printed in the newest attempt."""
        seq = 0
        while page := self._log_page(tenant, request_id, seq):
            for row in page:
                yield row.data["text"]
            seq = page[-1].seq

    def _log_page(self, tenant: str, request_id: str, seq: int) -> Sequence[AnyRow]:
        # One page per transaction: the reader may be a slow client, for which no transaction may wait.
        event, request = tables.events.c, tables.trace_requests.c
        query = (
            select(event.seq, event.data)
            .join(tables.trace_requests, request.id == event.request_id)
            .where(request.tenant == tenant, event.request_id == request_id, event.attempt == request.attempt)
            .where(event.kind == "log", event.seq > seq)
            .order_by(event.seq)
        )
        with self._transactions.read() as connection:
            return _page(connection, query, _LOG_PAGE)


def _page(connection: Connection, query: Select[*tuple[Any, ...]], limit: int) -> Sequence[AnyRow]:
    """Return the first of the events that the query has in order: at most `limit`, and to the end of PAGE_BYTES."""
    event = tables.events.c
    sizes = query.with_only_columns(event.seq, text_bytes(connection, event.data)).limit(limit)
    page_bytes, last = 0, 0
    for seq, byte_size in connection.execute(sizes).all():
        if page_bytes >= PAGE_BYTES:
            break
        page_bytes, last = page_bytes + byte_size, seq
    return connection.execute(query.where(event.seq <= last)).all() if last else []


def event_bytes(data: dict[str, JsonValue]) -> int:
    """Return what an event with this data counts."""
    return _ROW_BYTES + tables.document_bytes(tables.events.c.data, data)


def record_change(connection: Connection, row: AnyRow) -> None:
    """Record the new state in a trace request's row, whose `events` has been counted up with it."""
    if connection.dialect.name == "postgresql":  # elsewhere, one process has the queue in memory
        if row.state == State.QUEUED.value:
            jobs.add(connection, row.pool, row.id)
        elif row.state == State.CANCELLED.value:
            jobs.cancel(connection, row.id)
    if State(row.state).is_final:
        _record(connection, row, "end", {"state": row.state, "verdict": row.verdict})
        queue_messages(connection, row)
    else:
        _record(connection, row, "stage", {"stage": row.stage, "progress": row.progress, "state": row.state})


def _record(connection: Connection, row: AnyRow, kind: EventKind, *data: dict[str, JsonValue]) -> None:
    """Insert the events, of which the row has counted the last already."""
    now = datetime.now(UTC)
    first = row.events - len(data) + 1
    events = [
        {"request_id": row.id, "seq": seq, "attempt": row.attempt, "kind": kind, "data": one, "created_at": now}
        for seq, one in enumerate(data, first)
    ]
    connection.execute(insert(tables.events), events)
    count_stored_bytes(connection, row.id, sum(map(event_bytes, data)))
    mark_changed(connection, row.id)


def count_stored_bytes(connection: Connection, request_id: str, byte_size: int) -> None:
    """Count bytes that are stored for a trace request against its tenant's quota."""
    request = tables.trace_requests.c
    counting = update(tables.trace_requests).where(request.id == request_id)
    connection.execute(counting.values(stored_bytes=request.stored_bytes + byte_size))


class EarlyEvents(NamedTuple):
    """The events of a trace request but the last, and what they count."""

    request_id: str
    events: int
    byte_size: int


def find_early_events(connection: Connection, ended_before: datetime) -> list[EarlyEvents]:
    """Return what all events but the last are of each request that ended before then and has some."""
    request = tables.trace_requests.c
    rows = connection.execute(_count_early(connection).where(request.ended_at < ended_before)).all()
    return [_early(row) for row in rows]


def remove_early_events(connection: Connection, request_id: str) -> EarlyEvents:
    """Remove all events of a request that has ended but the last, which count no more; return what they were."""
    event, request = tables.events.c, tables.trace_requests.c
    row = connection.execute(_count_early(connection).where(request.id == request_id)).one_or_none()
    if row is None:
        return EarlyEvents(request_id, 0, 0)
    early = _early(row)
    connection.execute(delete(tables.events).where(event.request_id == request_id, event.seq < row.events))
    count_stored_bytes(connection, request_id, -early.byte_size)
    return early


def _count_early(connection: Connection) -> Select[*tuple[Any, ...]]:
    event, request = tables.events.c, tables.trace_requests.c
    byte_size = func.sum(text_bytes(connection, event.data), type_=BigInteger)
    counts = func.count().label("event_count"), byte_size.label("byte_size")
    return (
        select(request.id, request.events, *counts)
        .join(tables.events, event.request_id == request.id)
        .where(request.ended_at.is_not(None), event.seq < request.events)
        .group_by(request.id, request.events)
    )


def _early(row: AnyRow) -> EarlyEvents:
    return EarlyEvents(row.id, row.event_count, row.event_count * _ROW_BYTES + int(row.byte_size))
