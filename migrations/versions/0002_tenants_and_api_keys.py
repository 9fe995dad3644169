"""Tenants and API keys. What was there before belongs to the tenant `default`."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_TENANT = "default"


def upgrade() -> None:
    _widen_trace_requests()
    _make_owners()
    _count_stored_bytes()
    _remake_idempotency_keys(owned=True)
    _remake_models(owned=True)
    op.create_table(
        "api_keys",
        sa.Column("prefix", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("upload_max_bytes", sa.BigInteger),
        sa.PrimaryKeyConstraint("prefix", name="pk_api_keys"),
    )


def downgrade() -> None:
    """The tables before know one tenant and no keys. Raises ValueError if there are rows of others."""
    for table in ("trace_requests", "models", "artifact_owners"):
        others = sa.text(f"SELECT count(*) FROM {table} WHERE tenant <> '{_TENANT}'")
        if op.get_bind().scalar(others):
            raise ValueError(
                f"{table} has rows of other tenants than `{_TENANT}`, for whom the tables before have no place"
            )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no table is dropped of which a check is still to come
    op.drop_table("api_keys")
    _remake_models(owned=False)
    _remake_idempotency_keys(owned=False)
    op.drop_table("artifact_owners")
    _narrow_trace_requests()


def _narrow_trace_requests() -> None:
    for columns in ("stored_bytes", "content_created_at_id", "state_created_at_id", "created_at_id"):
        op.drop_index(f"ix_trace_requests_tenant_{columns}", "trace_requests")
    op.drop_column("trace_requests", "stored_bytes")
    op.drop_column("trace_requests", "tenant")
    op.create_index("ix_trace_requests_created_at_id", "trace_requests", ["created_at", "id"])
    op.create_index("ix_trace_requests_content_created_at", "trace_requests", ["content", "created_at"])


def _widen_trace_requests() -> None:
    # Not made anew: events and submissions point at it, and on SQLite they would have to be made anew as well. So
    # these two columns keep their defaults there, which no insert uses.
    op.add_column("trace_requests", sa.Column("tenant", sa.Text, nullable=False, server_default=_TENANT))
    op.add_column("trace_requests", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"))
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("trace_requests", "tenant", server_default=None)
        op.alter_column("trace_requests", "stored_bytes", server_default=None)
    op.drop_index("ix_trace_requests_created_at_id", "trace_requests")
    op.drop_index("ix_trace_requests_content_created_at", "trace_requests")
    op.create_index("ix_trace_requests_tenant_created_at_id", "trace_requests", ["tenant", "created_at", "id"])
    op.create_index(
        "ix_trace_requests_tenant_state_created_at_id", "trace_requests", ["tenant", "state", "created_at", "id"]
    )
    op.create_index(
        "ix_trace_requests_tenant_content_created_at_id", "trace_requests", ["tenant", "content", "created_at", "id"]
    )
    op.create_index("ix_trace_requests_tenant_stored_bytes", "trace_requests", ["tenant", "stored_bytes"])


def _make_owners() -> None:
    op.create_table(
        "artifact_owners",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest", name="pk_artifact_owners"),
        sa.ForeignKeyConstraint(["digest"], ["artifacts.digest"], name="fk_artifact_owners_artifacts"),
    )
    # Each came of some trace request, and those are all this tenant's.
    op.execute(f"INSERT INTO artifact_owners (tenant, digest) SELECT '{_TENANT}', digest FROM artifacts")


def _count_stored_bytes() -> None:
    """What each trace request takes: what was submitted, and the files of its artifact if it was the first."""
    connection = op.get_bind()
    requests = sa.table("trace_requests", sa.column("id"), sa.column("artifacts"), sa.column("created_at"))
    submissions = sa.table("submissions", sa.column("request_id"), sa.column("spec"), sa.column("files"))
    artifacts = sa.table("artifacts", sa.column("digest"), sa.column("manifest"))
    counted: set[str] = set()
    ids = connection.scalars(sa.select(requests.c.id).order_by(requests.c.created_at, requests.c.id)).all()
    # One at a time: a spec may hold megabytes.
    for request_id in ids:
        taken = 0
        submission = sa.select(submissions.c.spec, submissions.c.files).where(submissions.c.request_id == request_id)
        for spec, files in connection.execute(submission):
            taken += len(spec.encode()) + sum(blob["byte_size"] for blob in json.loads(files).values())
        produced = connection.scalar(sa.select(requests.c.artifacts).where(requests.c.id == request_id)) or "[]"
        new = {each["digest"] for each in json.loads(produced)} - counted
        counted |= new
        for text in connection.scalars(sa.select(artifacts.c.manifest).where(artifacts.c.digest.in_(new))):
            manifest = json.loads(text)
            taken += sum(manifest[blob]["byte_size"] for blob in ("archive", "printouts", "golden"))
        connection.execute(
            sa.text("UPDATE trace_requests SET stored_bytes = :taken WHERE id = :id"),
            {"taken": taken, "id": request_id},
        )


def _remake_idempotency_keys(*, owned: bool) -> None:
    _set_aside("idempotency_keys")
    op.create_table(
        "idempotency_keys",
        *_tenant_column(owned),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(*_key(owned, "key"), name="pk_idempotency_keys"),
        sa.ForeignKeyConstraint(
            ["request_id"],
            ["trace_requests.id"],
            name="fk_idempotency_keys_trace_requests",
            deferrable=True,
            initially="DEFERRED",
        ),
    )
    _bring_back("idempotency_keys", "key, content, request_id, created_at", owned=owned)


def _remake_models(*, owned: bool) -> None:
    # Those that point go before those that are pointed at, and come back after them.
    for name in ("aliases", "model_versions", "models"):
        _set_aside(name)
    model, version = _key(owned, "name"), _key(owned, "name", "version")
    op.create_table(
        "models",
        *_tenant_column(owned),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("last_version", sa.Integer, nullable=False),
        sa.Column("last_revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint(*model, name="pk_models"),
    )
    op.create_table(
        "model_versions",
        *_tenant_column(owned),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("artifacts", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("trace_request", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint(*version, name="pk_model_versions"),
        sa.ForeignKeyConstraint(model, [f"models.{one}" for one in model], name="fk_model_versions_models"),
    )
    op.create_table(
        "aliases",
        *_tenant_column(owned),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint(*_key(owned, "name", "alias"), name="pk_aliases"),
        sa.ForeignKeyConstraint(
            version, [f"model_versions.{one}" for one in version], name="fk_aliases_model_versions"
        ),
    )
    _bring_back("models", "name, last_version, last_revision", owned=owned)
    _bring_back("model_versions", "name, version, artifacts, verdict, trace_request, created_at", owned=owned)
    _bring_back("aliases", "name, alias, version, revision", owned=owned)


def _tenant_column(owned: bool) -> list[sa.Column[str]]:
    return [sa.Column("tenant", sa.Text, nullable=False)] if owned else []


def _key(owned: bool, *columns: str) -> list[str]:
    return ["tenant", *columns] if owned else [*columns]


def _set_aside(name: str) -> None:
    """Move a table's rows into one without keys, so that it can be created again with others, on both databases.

    Alembic's batch mode works on SQLite alone, and not for tables that others reference.
    """
    op.execute(f"CREATE TABLE {name}_before AS SELECT * FROM {name}")
    op.drop_table(name)


def _bring_back(name: str, columns: str, *, owned: bool) -> None:
    into, taken = (f"tenant, {columns}", f"'{_TENANT}', {columns}") if owned else (columns, columns)
    op.execute(f"INSERT INTO {name} ({into}) SELECT {taken} FROM {name}_before")
    op.drop_table(f"{name}_before")
