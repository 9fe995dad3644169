"""Bytes of the audit log: its entries count as stored bytes of their tenant. So far nobody counted them."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

adds_only = True
documents = "af547a50c5d8a601"

# What an entry takes beside its texts, as the service counts it.
_ENTRY_BYTES = 140


def upgrade() -> None:
    op.add_column("audit_log", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"))
    sizes = f"{_ENTRY_BYTES} + 3 * {_size_of('tenant')} + {_size_of('subject')} + {_size_of('details')}"
    op.execute(f"UPDATE audit_log SET stored_bytes = {sizes}")
    op.create_index("ix_audit_log_tenant_stored_bytes", "audit_log", ["tenant", "stored_bytes"])


def downgrade() -> None:
    op.drop_index("ix_audit_log_tenant_stored_bytes", "audit_log")
    op.drop_column("audit_log", "stored_bytes")


def _size_of(column: str) -> str:
    """Return the expression for the bytes of a text in UTF-8."""
    if op.get_bind().dialect.name == "postgresql":
        return f"octet_length({column})"
    return f"length(CAST({column} AS BLOB))"
