"""All stored bytes: a trace request's rows, events, findings and idempotency keys count too. So far its files did."""

from alembic import op

revision = "0008"
down_revision = "0007"

# What the tables take beside texts, as the service counts it.
_REQUEST_BYTES = 800
_EVENT_BYTES = 140
_KEY_BYTES = 180


def upgrade() -> None:
    _add_to_stored_bytes("+")


def downgrade() -> None:
    _add_to_stored_bytes("-")


def _add_to_stored_bytes(sign: str) -> None:
    events = _sum_of("events", f"{_EVENT_BYTES} + {_size_of('data')}")
    keys = _sum_of("idempotency_keys", f"{_KEY_BYTES} + 2 * {_size_of('key')}")
    documents = " + ".join(f"COALESCE({_size_of(name)}, 0)" for name in ("failure", "outputs"))
    made = f"CASE WHEN verdict IS NULL THEN 0 ELSE {_size_of('findings')} + {_size_of('artifacts')} END"
    op.execute(
        f"UPDATE trace_requests SET stored_bytes = stored_bytes {sign} "
        f"({_REQUEST_BYTES} + {events} + {keys} + {documents} + {made})"
    )


def _sum_of(table: str, row_bytes: str) -> str:
    """Return the expression for the bytes of a trace request's rows in another table."""
    return f"(SELECT COALESCE(SUM({row_bytes}), 0) FROM {table} WHERE request_id = trace_requests.id)"


def _size_of(column: str) -> str:
    """Return the expression for the bytes of a text in UTF-8."""
    if op.get_bind().dialect.name == "postgresql":
        return f"octet_length({column})"
    return f"length(CAST({column} AS BLOB))"
