"""Idempotency keys: each of a tenant's stands for the first trace request that took it."""

from datetime import datetime

from sqlalchemy import Connection, select

from service.domain.errors import IdempotencyKeyReused
from service.domain.idempotency import Idempotency
from service.storage import tables
from service.storage.transactions import upsert


def take_key(connection: Connection, tenant: str, idempotency: Idempotency, request_id: str, now: datetime) -> bool:
    """The key stands for the request from now on; False if it is taken.

    Where another submission is just taking it, this waits until that one is done.
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


def first_under(connection: Connection, tenant: str, idempotency: Idempotency) -> str:
    """The id of the request that took the key first, as one has. Raises IdempotencyKeyReused."""
    first = find_first_under(connection, tenant, idempotency)
    assert first is not None
    return first


def find_first_under(connection: Connection, tenant: str, idempotency: Idempotency) -> str | None:
    """The same; None if the key is free."""
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
