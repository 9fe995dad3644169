"""Idempotency keys: a tenant's key stands for the first trace request that took it."""

from datetime import datetime

from sqlalchemy import Connection, select

from service.domain.errors import IdempotencyKeyReused
from service.domain.idempotency import Idempotency
from service.storage import tables
from service.storage.transactions import upsert

# A key's row without the key, which is in the index too: measured with SQLite.
_ROW_BYTES = 180


def key_bytes(idempotency: Idempotency | None) -> int:
    """Return what a new key counts; 0 if there is none."""
    return 0 if idempotency is None else _ROW_BYTES + 2 * len(idempotency.key)


def take_key(connection: Connection, tenant: str, idempotency: Idempotency, request_id: str, now: datetime) -> bool:
    """Let the key stand for the request from now on; False if it is taken.

    If another submission is just taking it, this waits for the end of that transaction.
    """
    key = upsert(connection, tables.idempotency_keys).values(
        tenant=tenant,
        key=idempotency.key,
        content=idempotency.content,
        request_id=request_id,
        created_at=now,
    )
    taken = key.on_conflict_do_nothing().returning(tables.idempotency_keys.c.key)
    return connection.execute(taken).one_or_none() is not None


def request_of_key(connection: Connection, tenant: str, idempotency: Idempotency) -> str:
    """Return the id of the request that took the key, which is taken. Raises IdempotencyKeyReused."""
    first = find_request_of_key(connection, tenant, idempotency)
    assert first is not None
    return first


def find_request_of_key(connection: Connection, tenant: str, idempotency: Idempotency) -> str | None:
    """Return the id of the request that took the key; None if it is free. Raises IdempotencyKeyReused."""
    keys = tables.idempotency_keys
    query = select(keys).where(keys.c.tenant == tenant, keys.c.key == idempotency.key)
    first = connection.execute(query).one_or_none()
    if first is None:
        return None
    if first.content != idempotency.content:
        raise IdempotencyKeyReused(
            "the Idempotency-Key was used before with another request",
            key=idempotency.key,
            trace_request=first.request_id,
        )
    return str(first.request_id)
