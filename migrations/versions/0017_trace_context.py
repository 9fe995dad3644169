"""Trace requests have the context of the trace of OpenTelemetry in which they were submitted."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("trace_requests", sa.Column("trace_context", sa.Text))


def downgrade() -> None:
    op.drop_column("trace_requests", "trace_context")
