"""Default versions: the version of each model that answers if none is asked for. So far it was the newest."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("models", sa.Column("default_version", sa.Integer))
    op.add_column("trace_requests", sa.Column("promotion", sa.Text))
    op.execute(
        "UPDATE models SET default_version = (SELECT max(version) FROM model_versions "
        "WHERE model_versions.tenant = models.tenant AND model_versions.name = models.name)"
    )


def downgrade() -> None:
    op.drop_column("trace_requests", "promotion")
    op.drop_column("models", "default_version")
