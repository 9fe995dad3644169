"""Quotas: how much a tenant has stored and queued, and whether one more trace request is too much."""

from sqlalchemy import Connection, func, select

from service.domain.errors import QueueQuotaExceeded, StorageQuotaExceeded
from service.domain.quotas import Quotas
from service.domain.trace_request import State, TraceRequest
from service.storage import tables

_request = tables.trace_requests.c


def check_quotas(connection: Connection, request: TraceRequest, quotas: Quotas) -> None:
    """Raises QueueQuotaExceeded and StorageQuotaExceeded.

    Files that are sent again count again, although their bytes are stored once; an artifact counts once.
    """
    if quotas.queued_max is not None:
        queued = select(func.count()).where(
            _request.tenant == request.tenant,
            _request.state == State.QUEUED.value,
            _request.is_idle.is_(False),  # nobody asked for those, and they give way
        )
        waiting = connection.execute(queued).scalar_one()
        if waiting >= quotas.queued_max:
            raise QueueQuotaExceeded("too many of your requests are waiting", waiting=waiting, limit=quotas.queued_max)
    if quotas.stored_max_bytes is not None:
        total = select(func.coalesce(func.sum(_request.stored_bytes), 0)).where(_request.tenant == request.tenant)
        stored_bytes = int(connection.execute(total).scalar_one())
        if stored_bytes + request.submitted_bytes > quotas.stored_max_bytes:
            raise StorageQuotaExceeded(
                "this upload and what you have stored together exceed your quota",
                stored_bytes=stored_bytes,
                sent_bytes=request.submitted_bytes,
                limit=quotas.stored_max_bytes,
            )
