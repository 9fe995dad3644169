"""Environments: which version of one a trace request runs in. So far there were none."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("trace_requests", sa.Column("environment", sa.Text))


def downgrade() -> None:
    op.drop_column("trace_requests", "environment")
