"""Bytes of artifacts: each counts with its owner. So far it counted with the first trace request that made it.

An artifact may be named by others when that request is deleted, and then still counts.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

owners = sa.table(
    "artifact_owners",
    *map(sa.column, ("tenant", "digest", "stored_bytes")),
)
artifacts = sa.table("artifacts", *map(sa.column, ("digest", "manifest")))
requests = sa.table(
    "trace_requests",
    *map(sa.column, ("id", "tenant", "artifacts", "state", "ended_at", "stored_bytes")),
)


def upgrade() -> None:
    op.add_column("artifact_owners", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("ix_artifact_owners_tenant_stored_bytes", "artifact_owners", ["tenant", "stored_bytes"])
    for tenant, digest in _owned():
        byte_size, maker = _bytes_of(digest), _first_maker(tenant, digest)
        if maker is not None:
            _set_owner_bytes(tenant, digest, byte_size)
            _count(maker, -byte_size)


def downgrade() -> None:
    connection = op.get_bind()
    for tenant, digest in _owned():
        its = owners.c.tenant == tenant, owners.c.digest == digest
        byte_size: int = connection.scalars(sa.select(owners.c.stored_bytes).where(*its)).one()
        maker = _first_maker(tenant, digest)
        if maker is not None:
            _count(maker, byte_size)
    op.drop_index("ix_artifact_owners_tenant_stored_bytes", "artifact_owners")
    op.drop_column("artifact_owners", "stored_bytes")


def _owned() -> list[tuple[str, str]]:
    rows = op.get_bind().execute(sa.select(owners.c.tenant, owners.c.digest)).all()
    return [(row.tenant, row.digest) for row in rows]


def _bytes_of(digest: str) -> int:
    """Return what the service counts for an artifact: its manifest, and its files without those of an earlier one."""
    text = op.get_bind().scalar(sa.select(artifacts.c.manifest).where(artifacts.c.digest == digest))
    try:
        manifest: dict[str, Any] = json.loads(text or "{}")
    except ValueError:  # it is damaged, and nobody gets the artifact
        return 0
    names = ["golden", "sources"]
    if manifest.get("continues") is None:
        names += ["archive", "printouts", "exported"]
    files = [manifest.get(name) for name in names]
    files += [one[name] for one in manifest.get("counterexamples", []) for name in ("arrays", "test")]
    byte_size: int = sum(file["byte_size"] for file in files if file)
    return byte_size + len((text or "").encode())


def _first_maker(tenant: str, digest: str) -> str | None:
    """Return the id of the request that was the first to make the artifact, with which it counted."""
    made = sa.or_(*(requests.c.artifacts.contains(f'"digest":{space}"{digest}"') for space in ("", " ")))
    query = sa.select(requests.c.id).where(requests.c.tenant == tenant, requests.c.state == "succeeded", made)
    return op.get_bind().scalar(query.order_by(requests.c.ended_at, requests.c.id).limit(1))


def _set_owner_bytes(tenant: str, digest: str, byte_size: int) -> None:
    its = owners.c.tenant == tenant, owners.c.digest == digest
    op.get_bind().execute(sa.update(owners).where(*its).values(stored_bytes=byte_size))


def _count(request_id: str, byte_size: int) -> None:
    counting = sa.update(requests).where(requests.c.id == request_id)
    op.get_bind().execute(counting.values(stored_bytes=requests.c.stored_bytes + byte_size))
