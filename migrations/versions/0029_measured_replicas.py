"""`replicas` of a model may be null: the service decides. Models that had 1, which was the default, get null.

Nobody can tell a 1 that was chosen from it. Processes of the step before cannot read null.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

documents = "af547a50c5d8a601"


def upgrade() -> None:
    _replace(sa.Column("replicas", sa.Integer), "WHERE replicas_before <> 1")


def downgrade() -> None:
    _replace(sa.Column("replicas", sa.Integer, nullable=False, server_default="1"), "WHERE replicas_before IS NOT NULL")


def _replace(column: sa.Column[int], which: str) -> None:
    """Have another column in its place, with what these rows had. SQLite cannot change the present one."""
    op.execute("ALTER TABLE models RENAME COLUMN replicas TO replicas_before")
    op.add_column("models", column)
    op.execute(f"UPDATE models SET replicas = replicas_before {which}")
    op.drop_column("models", "replicas_before")
