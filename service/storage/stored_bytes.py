"""Stored bytes: what the rows of tenants, and the files that these name, count against their quotas."""

from functools import reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, LargeBinary, cast, func, select

from service.storage import tables

# Tables with a column `stored_bytes`.
_SIZED_TABLES = tables.trace_requests, tables.artifact_owners, tables.live_checks, tables.audit_log


class _RowCost(NamedTuple):
    """What a row counts: the bytes of its text, and so many for its other columns and indexes. Measured with SQLite."""

    text: ColumnElement[str]
    other_bytes: int


ROW_COSTS = {
    tables.api_keys: _RowCost(tables.api_keys.c.name, 280),
    tables.models: _RowCost(tables.models.c.name, 60),
    tables.webhooks: _RowCost(tables.webhooks.c.url, 310),
    tables.webhook_messages: _RowCost(tables.webhook_messages.c.body, 210),
}


def read_stored_bytes(connection: Connection, tenant: str | None = None) -> int:
    """Return what a tenant's rows count, or those of all tenants if it is None."""
    sizes = {table: table.c.stored_bytes for table in _SIZED_TABLES} | {
        table: text_bytes(connection, text) + other_bytes for table, (text, other_bytes) in ROW_COSTS.items()
    }
    totals = [select(func.coalesce(func.sum(size), 0)).select_from(table) for table, size in sizes.items()]
    if tenant is not None:
        totals = [total.where(table.c.tenant == tenant) for total, table in zip(totals, sizes, strict=True)]
    return int(connection.execute(select(reduce(add, (total.scalar_subquery() for total in totals)))).scalar_one())


def text_bytes(connection: Connection, text: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the expression for how many bytes a text has, or a document."""
    return func.length(cast(text, LargeBinary)) if connection.dialect.name == "sqlite" else func.octet_length(text)
