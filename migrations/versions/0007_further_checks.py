"""Further checks: which artifact a request goes on from, which artifacts have one archive, and which are withdrawn."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("trace_requests", sa.Column("continues", sa.Text))
    op.add_column("trace_requests", sa.Column("is_idle", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("ix_trace_requests_tenant_continues", "trace_requests", ["tenant", "continues"])
    op.add_column("artifact_owners", sa.Column("archive", sa.Text))
    # No worker goes on by itself with what is there: how such an artifact was made is not in its manifest.
    op.add_column("artifact_owners", sa.Column("idle_pool", sa.Text))
    op.add_column("artifact_owners", sa.Column("withdrawn_by", sa.Text))
    op.add_column("model_versions", sa.Column("withdrawn", sa.Text))
    op.create_index("ix_artifact_owners_idle_pool", "artifact_owners", ["idle_pool"])
    op.create_index("ix_artifact_owners_tenant_archive", "artifact_owners", ["tenant", "archive"])
    _name_archives()


def downgrade() -> None:
    op.drop_index("ix_artifact_owners_tenant_archive", "artifact_owners")
    op.drop_index("ix_artifact_owners_idle_pool", "artifact_owners")
    op.drop_index("ix_trace_requests_tenant_continues", "trace_requests")
    op.drop_column("model_versions", "withdrawn")
    for name in ("withdrawn_by", "idle_pool", "archive"):
        op.drop_column("artifact_owners", name)
    for name in ("is_idle", "continues"):
        op.drop_column("trace_requests", name)


def _name_archives() -> None:
    connection = op.get_bind()
    artifacts = sa.table("artifacts", sa.column("digest"), sa.column("manifest"))
    owners = sa.table("artifact_owners", sa.column("tenant"), sa.column("digest"))
    # One at a time: a manifest may have megabytes of findings. By tenant too, which the table's key begins with.
    for tenant, digest in connection.execute(sa.select(owners.c.tenant, owners.c.digest)).all():
        text = connection.scalar(sa.select(artifacts.c.manifest).where(artifacts.c.digest == digest))
        connection.execute(
            sa.text("UPDATE artifact_owners SET archive = :archive WHERE tenant = :tenant AND digest = :digest"),
            {
                "archive": json.loads(text or "{}").get("archive", {}).get("digest"),
                "tenant": tenant,
                "digest": digest,
            },
        )
