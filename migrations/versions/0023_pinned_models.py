"""A model says whether its process is kept ready."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

adds_only = True
documents = "af547a50c5d8a601"

_PINNED = sa.text("pinned")


def upgrade() -> None:
    op.add_column("models", sa.Column("pinned", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("ix_models_pinned", "models", ["tenant", "name"], sqlite_where=_PINNED, postgresql_where=_PINNED)


def downgrade() -> None:
    op.drop_index("ix_models_pinned", "models")
    op.drop_column("models", "pinned")
