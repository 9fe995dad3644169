"""Tenants: those that have quotas of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("queued_max", sa.Integer),
        sa.Column("stored_max_bytes", sa.BigInteger),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )


def downgrade() -> None:
    op.drop_table("tenants")
