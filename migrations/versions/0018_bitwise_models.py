"""A model says whether it is served bitwise: whether the bytes of an answer may depend on who else asks."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("models", sa.Column("bitwise", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("models", "bitwise")
