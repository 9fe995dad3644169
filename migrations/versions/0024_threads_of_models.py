"""A model says how many threads a process of it computes with; null: as many as the service's setting says."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

adds_only = True
documents = "af547a50c5d8a601"


def upgrade() -> None:
    op.add_column("models", sa.Column("threads", sa.Integer))


def downgrade() -> None:
    op.drop_column("models", "threads")
