"""What the live check found of each version, and aliases that it moves back."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_COUNTS = ("asked", "equal", "different", "dropped", "could_not_run", "stored_bytes")


def upgrade() -> None:
    op.create_table(
        "live_checks",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _COUNTS),
        sa.Column("why", sa.Text),
        sa.Column("counterexamples", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant", "name", "version"],
            ["model_versions.tenant", "model_versions.name", "model_versions.version"],
            name="fk_live_checks_model_versions",
        ),
        sa.PrimaryKeyConstraint("tenant", "name", "version", name="pk_live_checks"),
    )
    op.add_column("aliases", sa.Column("move_back_after", sa.Integer))
    op.add_column("aliases", sa.Column("move_back_to", sa.Integer))
    op.add_column("aliases", sa.Column("counted_from", sa.BigInteger))
    op.add_column("aliases", sa.Column("moved_back", sa.Text))


def downgrade() -> None:
    for name in ("moved_back", "counted_from", "move_back_to", "move_back_after"):
        op.drop_column("aliases", name)
    op.drop_table("live_checks")
