"""The audit log. An entry is written in the transaction of the change, so that there is none without the other."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, JsonValue
from sqlalchemy import Connection, delete, insert, select

from service.domain.audit import Actor, AuditAction, AuditEntry
from service.storage import tables
from service.storage.page import Cursor, Page
from service.storage.transactions import Transactions

_entry = tables.audit_log.c
_cursor = Cursor(tuple[Annotated[int, Field(ge=0, lt=2**62)]])
# Of each tenant, so many are kept at least: one that submits and deletes without end fills no disk, and hides only its
# own entries. About 30 MB.
_KEPT = 100_000
_TRIM_EVERY = 100


class AuditLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def list(self, tenant: str, limit: int, after: str | None = None) -> Page[AuditEntry]:
        """Return a page of the tenant's entries, the newest first. Raises InvalidCursor."""
        query = select(tables.audit_log).where(_entry.tenant == tenant).order_by(_entry.id.desc()).limit(limit + 1)
        if after is not None:
            query = query.where(_entry.id < _cursor.place(after)[0])
        with self._transactions.read() as connection:
            entries = [AuditEntry(**row) for row in connection.execute(query).mappings()]
        return _cursor.page(entries, limit, lambda entry: (entry.id,))


def record(
    connection: Connection, by: Actor, tenant: str, action: AuditAction, subject: str, **details: JsonValue
) -> None:
    """Write an entry within the transaction of the change."""
    row = {"tenant": tenant, "via": by.via, "key": by.key, "action": action, "subject": subject, "details": details}
    adding = insert(tables.audit_log).values(**row, at=datetime.now(UTC)).returning(_entry.id)
    entry_id = connection.execute(adding).scalar_one()
    if entry_id % _TRIM_EVERY == 0:
        _trim(connection, tenant)


def _trim(connection: Connection, tenant: str) -> None:
    its = _entry.tenant == tenant
    oldest_kept = select(_entry.id).where(its).order_by(_entry.id.desc()).offset(_KEPT - 1).limit(1)
    connection.execute(delete(tables.audit_log).where(its, _entry.id < oldest_kept.scalar_subquery()))
