"""Tenants: those that have keys, trace requests or quotas of their own; what they have, and how much they may."""

from collections.abc import Sequence

from sqlalchemy import Connection, func, select, union

from service.domain.api_key import TenantName
from service.domain.audit import SERVICE, Actor
from service.domain.errors import TenantNotFound
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.tenant import TenantUsage
from service.domain.trace_request import State
from service.storage import tables
from service.storage.audit import record
from service.storage.page import Cursor, Page
from service.storage.quotas import read_quotas
from service.storage.stored_bytes import read_stored_bytes
from service.storage.transactions import Transactions, upsert

_cursor = Cursor(tuple[TenantName])
_tenant = tables.tenants.c
_request = tables.trace_requests.c
_KNOWN = union(
    select(_tenant.name),
    select(tables.api_keys.c.tenant),
    select(_request.tenant),
).subquery()


class Tenants:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, limit: int, after: str | None = None) -> Page[TenantUsage]:
        """Return a page of the tenants in the order of their names. Raises InvalidCursor."""
        names = select(_KNOWN.c.name).order_by(_KNOWN.c.name).limit(limit + 1)
        if after is not None:
            names = names.where(_KNOWN.c.name > _cursor.place(after)[0])
        with self._transactions.read() as connection:
            usages = _usages(connection, connection.scalars(names).all())
        return _cursor.page(usages, limit, lambda usage: (usage.name,))

    def get(self, name: str) -> TenantUsage:
        """Return a tenant. Raises TenantNotFound."""
        with self._transactions.read() as connection:
            if connection.scalar(select(_KNOWN.c.name).where(_KNOWN.c.name == name)) is None:
                raise TenantNotFound("there is no tenant of this name", tenant=name)
            return _usages(connection, [name])[0]

    def usage(self, name: str) -> TenantUsage:
        """Return what the tenant has, which is nothing if nobody knows it."""
        with self._transactions.read() as connection:
            return _usages(connection, [name])[0]

    def set_quotas(self, name: str, quotas: Quotas, *, by: Actor = SERVICE) -> TenantUsage:
        """Give the tenant quotas of its own, from its next trace request and file on. None is the service's."""
        values = quotas.model_dump()
        with self._transactions.write() as connection:
            put = upsert(connection, tables.tenants).values(name=name, **values)
            connection.execute(put.on_conflict_do_update(index_elements=["name"], set_=values))
            record(connection, by, name, "quotas.put", name, **values)
            return _usages(connection, [name])[0]


def _usages(connection: Connection, names: Sequence[str]) -> "list[TenantUsage]":
    return [_usage(connection, name) for name in names]


def _usage(connection: Connection, name: str) -> TenantUsage:
    waiting = _request.tenant == name, _request.state == State.QUEUED.value, _request.is_idle.is_(False)
    return TenantUsage(
        name=name,
        queued=connection.execute(select(func.count()).where(*waiting)).scalar_one(),
        stored_bytes=read_stored_bytes(connection, name),
        own_quotas=read_quotas(connection, name, NO_QUOTAS),
    )
