"""Releases side by side: the database says which may use it, and what they write says by which revision.

What is there counts as written by a release from before this step, which all later ones read.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

documents = "af547a50c5d8a601"

_WRITTEN = ("trace_requests", "artifacts", "workers")


def upgrade() -> None:
    op.create_table(
        "oldest_release",
        sa.Column("revision", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_oldest_release"),
    )
    for table in _WRITTEN:
        op.add_column(table, sa.Column("revision", sa.Text, nullable=False, server_default="0020"))


def downgrade() -> None:
    for table in _WRITTEN:
        op.drop_column(table, "revision")
    op.drop_table("oldest_release")
