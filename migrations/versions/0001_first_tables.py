"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "trace_requests",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("progress", sa.Float, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("faults", sa.Integer, nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("verdict", sa.Text),
        sa.Column("model_name", sa.Text, nullable=False),
        sa.Column("model_version", sa.Integer),
        sa.Column("artifacts", sa.Text, nullable=False),
        sa.Column("findings", sa.Text, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_trace_requests"),
    )
    op.create_index("ix_trace_requests_created_at_id", "trace_requests", ["created_at", "id"])
    op.create_index("ix_trace_requests_state_created_at_id", "trace_requests", ["state", "created_at", "id"])
    op.create_index("ix_trace_requests_content_created_at", "trace_requests", ["content", "created_at"])

    op.create_table(
        "submissions",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_submissions"),
        sa.ForeignKeyConstraint(["request_id"], ["trace_requests.id"], name="fk_submissions_trace_requests"),
    )

    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
        sa.ForeignKeyConstraint(
            ["request_id"],
            ["trace_requests.id"],
            name="fk_idempotency_keys_trace_requests",
            deferrable=True,
            initially="DEFERRED",
        ),
    )

    op.create_table(
        "events",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("request_id", "seq", name="pk_events"),
        sa.ForeignKeyConstraint(["request_id"], ["trace_requests.id"], name="fk_events_trace_requests"),
    )

    op.create_table(
        "artifacts",
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_artifacts"),
    )

    op.create_table(
        "models",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("last_version", sa.Integer, nullable=False),
        sa.Column("last_revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_models"),
    )

    op.create_table(
        "model_versions",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("artifacts", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("trace_request", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_model_versions"),
        sa.ForeignKeyConstraint(["name"], ["models.name"], name="fk_model_versions_models"),
    )

    op.create_table(
        "aliases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("name", "alias", name="pk_aliases"),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["model_versions.name", "model_versions.version"],
            name="fk_aliases_model_versions",
        ),
    )


def downgrade() -> None:
    for name in ("aliases", "model_versions", "models", "artifacts", "events", "idempotency_keys", "submissions"):
        op.drop_table(name)
    op.drop_table("trace_requests")
