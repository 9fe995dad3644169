"""Webhooks, and the messages that wait to be delivered to them."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_tried_at", sa.DateTime(timezone=True)),
        sa.Column("last_result", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_tenant_created_at_id", "webhooks", ["tenant", "created_at", "id"])
    op.create_table(
        "webhook_messages",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("webhook", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_messages"),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.id"], name="fk_webhook_messages_webhooks"),
    )
    op.create_index("ix_webhook_messages_due_at", "webhook_messages", ["due_at"])
    op.create_index("ix_webhook_messages_tenant_due_at", "webhook_messages", ["tenant", "due_at"])
    op.create_index("ix_webhook_messages_webhook", "webhook_messages", ["webhook"])


def downgrade() -> None:
    op.drop_table("webhook_messages")
    op.drop_table("webhooks")
