"""The processes that run trace requests, and the turns that they have."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("slots", sa.Text, nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "turns",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("is_idle", sa.Boolean, nullable=False),
        sa.Column("gives_way", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_turns"),
    )
    op.create_index("ix_turns_worker", "turns", ["worker"])
    op.create_index("ix_turns_pool", "turns", ["pool"])
    op.create_table(
        "last_turns",
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pool", "tenant", name="pk_last_turns"),
    )


def downgrade() -> None:
    op.drop_table("last_turns")
    op.drop_table("turns")
    op.drop_table("workers")
