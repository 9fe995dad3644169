"""Trace requests have the budget of their check, by which they are timed, and an index of those that wait.

Those from before count as normal.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_WAITS = sa.text("state = 'queued' AND NOT is_idle")


def upgrade() -> None:
    op.add_column("trace_requests", sa.Column("budget", sa.Text, nullable=False, server_default="normal"))
    op.create_index(
        "ix_trace_requests_waiting",
        "trace_requests",
        ["pool", "tenant", "budget", "created_at", "id"],
        sqlite_where=_WAITS,
        postgresql_where=_WAITS,
    )


def downgrade() -> None:
    op.drop_index("ix_trace_requests_waiting", "trace_requests")
    op.drop_column("trace_requests", "budget")
