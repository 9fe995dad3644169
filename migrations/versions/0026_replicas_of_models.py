"""A model says how many processes of it answer; one, if it does not."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

adds_only = True
documents = "af547a50c5d8a601"


def upgrade() -> None:
    op.add_column("models", sa.Column("replicas", sa.Integer, nullable=False, server_default="1"))


def downgrade() -> None:
    op.drop_column("models", "replicas")
