"""The audit log. An entry is written in the transaction of the change, so that there is none without the other.

Entries count as stored bytes of their tenant. A change that needs room for its entry is not made where there is none;
what frees room, takes rights away, or is done by the service or an operator needs none.
"""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, JsonValue
from sqlalchemy import Connection, delete, insert, select

from service.domain.audit import Actor, AuditAction, AuditEntry
from service.storage import tables
from service.storage.page import Cursor, Page
from service.storage.quotas import Room, check_room
from service.storage.transactions import Transactions

_entry = tables.audit_log.c
_COLUMNS = [_entry[name] for name in AuditEntry.model_fields]
_cursor = Cursor(tuple[Annotated[int, Field(ge=0, lt=2**62)]])
# Of each tenant, so many are kept at least: one that submits and deletes without end fills no disk, and hides only its
# own entries. About 20 MB.
_KEPT = 100_000
_TRIM_EVERY = 100
# An entry without its texts, and the tenant's name stands in two indexes too: measured with both databases.
_ENTRY_BYTES = 140
_TENANT_TIMES = 3


class AuditLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, tenant: str, limit: int, after: str | None = None) -> Page[AuditEntry]:
        """Return a page of the tenant's entries, the newest first. Raises InvalidCursor."""
        query = select(*_COLUMNS).where(_entry.tenant == tenant).order_by(_entry.id.desc()).limit(limit + 1)
        if after is not None:
            query = query.where(_entry.id < _cursor.place(after)[0])
        with self._transactions.read() as connection:
            entries = [AuditEntry(**row) for row in connection.execute(query).mappings()]
        return _cursor.page(entries, limit, lambda entry: (entry.id,))


def record(
    connection: Connection,
    by: Actor,
    tenant: str,
    action: AuditAction,
    subject: str,
    *,
    room: Room | None = None,
    **details: JsonValue,
) -> None:
    """Write an entry within the transaction of the change. Raises StorageQuotaExceeded if it has no such `room`."""
    byte_size = _entry_bytes(tenant, subject, details)
    if room is not None:
        check_room(connection, tenant, byte_size, *room)
    row = {"tenant": tenant, "via": by.via, "key": by.key, "action": action, "subject": subject, "details": details}
    adding = insert(tables.audit_log).values(**row, at=datetime.now(UTC), stored_bytes=byte_size).returning(_entry.id)
    entry_id = connection.execute(adding).scalar_one()
    if entry_id % _TRIM_EVERY == 0:
        _trim(connection, tenant)


def _entry_bytes(tenant: str, subject: str, details: dict[str, JsonValue]) -> int:
    texts = _TENANT_TIMES * len(tenant.encode()) + len(subject.encode())
    return _ENTRY_BYTES + texts + tables.document_bytes(_entry.details, details)


def _trim(connection: Connection, tenant: str) -> None:
    its = _entry.tenant == tenant
    oldest_kept = select(_entry.id).where(its).order_by(_entry.id.desc()).offset(_KEPT - 1).limit(1)
    connection.execute(delete(tables.audit_log).where(its, _entry.id < oldest_kept.scalar_subquery()))
