"""What the model returned, of requests in mode eager."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("trace_requests", sa.Column("outputs", sa.Text))


def downgrade() -> None:
    op.drop_column("trace_requests", "outputs")
