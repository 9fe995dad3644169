"""The default version of a model, like an alias, can be moved back by the live check."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

_COLUMNS = {
    "move_back_after": sa.Integer,
    "move_back_to": sa.Integer,
    "counted_from": sa.BigInteger,
    "moved_back": sa.Text,
}


def upgrade() -> None:
    for name, kind in _COLUMNS.items():
        op.add_column("models", sa.Column(name, kind))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("models", name)
