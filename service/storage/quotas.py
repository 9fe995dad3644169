"""Quotas: how much a tenant has stored and queued, and whether one more trace request is too much."""

from typing import NamedTuple

from sqlalchemy import Connection, func, select

from service.domain.errors import QueueQuotaExceeded, StorageQuotaExceeded
from service.domain.quotas import Quotas
from service.domain.trace_request import State, TraceRequest
from service.storage import tables
from service.storage.stored_bytes import read_stored_bytes
from service.storage.trace_request_rows import request_bytes

_request = tables.trace_requests.c


class Room(NamedTuple):
    """The quotas for one that stores more, unless the tenant has its own, and what is being written beside it."""

    quotas: Quotas
    staged_bytes: int = 0


def check_quotas(connection: Connection, request: TraceRequest, quotas: Quotas, staged_bytes: int) -> None:
    """Raises QueueQuotaExceeded and StorageQuotaExceeded. `staged_bytes` are being written beside this request's.

    Files that are sent again count again, although their bytes are stored once; an artifact counts once.
    """
    quotas = read_quotas(connection, request.tenant, quotas)
    if quotas.queued_max is not None:
        queued = select(func.count()).where(
            _request.tenant == request.tenant,
            _request.state == State.QUEUED.value,
            _request.is_idle.is_(False),  # nobody asked for those, and they give way
        )
        waiting = connection.execute(queued).scalar_one()
        if waiting >= quotas.queued_max:
            raise QueueQuotaExceeded("too many of your requests are waiting", waiting=waiting, limit=quotas.queued_max)
    check_room(connection, request.tenant, request_bytes(request), quotas, staged_bytes)


def check_room(connection: Connection, tenant: str, byte_size: int, quotas: Quotas, staged_bytes: int) -> None:
    """Raise StorageQuotaExceeded if the tenant has no room for so many bytes more."""
    quotas = read_quotas(connection, tenant, quotas)
    if quotas.stored_max_bytes is not None:
        check_stored_bytes(read_stored_bytes(connection, tenant), staged_bytes, byte_size, quotas.stored_max_bytes)


def read_quotas(connection: Connection, tenant: str, service: Quotas) -> Quotas:
    """Return the tenant's own quotas, and the service's where it has none."""
    own = tables.tenants.c
    row = connection.execute(select(own.queued_max, own.stored_max_bytes).where(own.name == tenant)).one_or_none()
    if row is None:
        return service
    return Quotas(queued_max=row.queued_max, stored_max_bytes=row.stored_max_bytes).or_else(service)


def check_stored_bytes(stored_bytes: int, staged_bytes: int, sent_bytes: int, limit: int) -> None:
    """Raise StorageQuotaExceeded if these are too many together."""
    if stored_bytes + staged_bytes + sent_bytes > limit:
        raise StorageQuotaExceeded(
            "what this request stores and what you have stored together exceed your quota",
            stored_bytes=stored_bytes,
            staged_bytes=staged_bytes,
            sent_bytes=sent_bytes,
            limit=limit,
        )
