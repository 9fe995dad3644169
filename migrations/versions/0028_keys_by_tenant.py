"""Keys by tenant: what a tenant's API keys count as stored bytes is summed up without a look at those of others."""

from alembic import op

revision = "0028"
down_revision = "0027"

adds_only = True
documents = "af547a50c5d8a601"


def upgrade() -> None:
    op.create_index("ix_api_keys_tenant_created_at_prefix", "api_keys", ["tenant", "created_at", "prefix"])


def downgrade() -> None:
    op.drop_index("ix_api_keys_tenant_created_at_prefix", "api_keys")
