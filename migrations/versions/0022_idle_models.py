"""A model says how long a process of it stays that nobody asks; null: as long as the service's setting says."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

adds_only = True
documents = "af547a50c5d8a601"


def upgrade() -> None:
    op.add_column("models", sa.Column("idle_s", sa.Float))


def downgrade() -> None:
    op.drop_column("models", "idle_s")
