"""Signatures: what the service signed about an artifact. One for each tenant, because it has the time of its trace."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # What is there stays unsigned: who changed a row of it could have it signed now.
    op.add_column("artifact_owners", sa.Column("signature", sa.Text))


def downgrade() -> None:
    op.drop_column("artifact_owners", "signature")
