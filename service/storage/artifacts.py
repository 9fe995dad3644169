"""Artifacts: manifests by their digest. They are never changed."""

from datetime import UTC, datetime

from sqlalchemy import Connection, select

from service.domain.artifact import Artifact
from service.domain.errors import ArtifactNotFound
from service.storage import tables
from service.storage.transactions import Transactions, upsert


class Artifacts:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def get(self, digest: str) -> Artifact:
        """Raises ArtifactNotFound."""
        with self._transactions.read() as connection:
            query = select(tables.artifacts.c.manifest).where(tables.artifacts.c.digest == digest)
            manifest = connection.scalar(query)
        if manifest is None:
            raise ArtifactNotFound("there is no artifact with this digest", digest=digest)
        return Artifact.model_validate_json(manifest)


def keep(connection: Connection, artifact: Artifact) -> str:
    """Part of the transaction that finishes a trace request. The same artifact may be there already."""
    digest = artifact.digest
    row = {"digest": digest, "manifest": artifact.manifest().decode(), "created_at": datetime.now(UTC)}
    connection.execute(upsert(connection, tables.artifacts).values(row).on_conflict_do_nothing())
    return digest
