"""Artifacts: manifests by their digests. A manifest never changes."""

from datetime import UTC, datetime

from pydantic import BaseModel
from sqlalchemy import Connection, select

from service.domain.errors import ArtifactNotFound
from service.storage import tables
from service.storage.transactions import Transactions, upsert
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract


class _Manifest(BaseModel):
    """As much of a manifest as is compared with another version's: a whole one may have megabytes of findings."""

    contract: Contract


class Artifacts:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def get(self, tenant: str, digest: str) -> Artifact:
        """Return an artifact. Raises ArtifactNotFound, also if no trace request of this tenant made it."""
        artifact, owner = tables.artifacts.c, tables.artifact_owners.c
        query = (
            select(artifact.manifest)
            .join(tables.artifact_owners, owner.digest == artifact.digest)
            .where(artifact.digest == digest, owner.tenant == tenant)
        )
        with self._transactions.read() as connection:
            manifest = connection.scalar(query)
        if manifest is None:
            raise ArtifactNotFound("there is no artifact with this digest", digest=digest)
        return Artifact.model_validate_json(manifest)


def read_contract(connection: Connection, digest: str) -> Contract:
    """Return the contract of an artifact that a model version has. Raises ValidationError if it cannot be read."""
    query = select(tables.artifacts.c.manifest).where(tables.artifacts.c.digest == digest)
    manifest: str = connection.execute(query).scalar_one()
    return _Manifest.model_validate_json(manifest).contract


def keep(connection: Connection, tenant: str, artifact: Artifact) -> bool:
    """Store an artifact within a transaction; False if the tenant has the same one already."""
    digest = artifact.digest
    row = {"digest": digest, "manifest": artifact.manifest().decode(), "created_at": datetime.now(UTC)}
    connection.execute(upsert(connection, tables.artifacts).values(row).on_conflict_do_nothing())
    owned = upsert(connection, tables.artifact_owners).values(tenant=tenant, digest=digest).on_conflict_do_nothing()
    return connection.execute(owned.returning(tables.artifact_owners.c.digest)).one_or_none() is not None
