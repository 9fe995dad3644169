"""Buckets: of a model's version, the artifacts for several sizes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("model_versions", sa.Column("buckets", sa.Text))


def downgrade() -> None:
    op.drop_column("model_versions", "buckets")
