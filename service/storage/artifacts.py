"""Artifacts: manifests by their digests. A manifest never changes: one that does not match its digest is damaged."""

import hashlib
from collections.abc import Collection
from datetime import UTC, datetime

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, func, select, update

import migrations
from service.domain.errors import ArtifactNotFound, ContentDamaged
from service.domain.further_check import idle_pool_of
from service.storage import tables
from service.storage.releases import reading
from service.storage.transactions import Transactions, upsert
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.contract.widening import accepts_more
from tracehouse.findings.verdict import Verdict

_artifact = tables.artifacts.c
_owner = tables.artifact_owners.c


class _Check(BaseModel):
    verdict: Verdict


class _Printouts(BaseModel):
    printouts: BlobRef


class _Manifest(BaseModel):
    """As much of a manifest as is compared with another version's: a whole one may have megabytes of findings."""

    contract: Contract
    check: _Check


class Artifacts:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def get(self, tenant: str, digest: str) -> Artifact:
        """Return an artifact that a request of this tenant made.

        Raises ArtifactNotFound, ContentDamaged and ReleaseTooOld.
        """
        manifest, revision = self._manifest(tenant, digest)
        with reading(revision):
            return Artifact.model_validate_json(manifest)

    def printouts(self, tenant: str, digest: str) -> BlobRef:
        """Return where an artifact's printouts are: a tenth of the work of `get`, and raises the same."""
        manifest, revision = self._manifest(tenant, digest)
        with reading(revision):
            return _Printouts.model_validate_json(manifest).printouts

    def _manifest(self, tenant: str, digest: str) -> tuple[str, str]:
        """Return the manifest, and the revision by which it was written."""
        query = (
            select(_artifact.manifest, _artifact.revision)
            .join(tables.artifact_owners, _owner.digest == _artifact.digest)
            .where(_artifact.digest == digest, _owner.tenant == tenant)
        )
        with self._transactions.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise no_artifact(digest)
        _check_digest(digest, row.manifest)
        return row.manifest, row.revision

    def signature(self, tenant: str, digest: str) -> str | None:
        """Return the signature of an artifact as a DSSE envelope; None if the tenant has it unsigned, or not at all."""
        query = select(_owner.signature).where(_owner.digest == digest, _owner.tenant == tenant)
        with self._transactions.read() as connection:
            return connection.scalar(query)

    def withdrawals(self, tenant: str, digests: Collection[str]) -> dict[str, str]:
        """Return those of the artifacts that are withdrawn, each with the trace request whose check refuted it."""
        with self._transactions.read() as connection:
            return read_withdrawals(connection, tenant, digests)


def no_artifact(digest: str) -> ArtifactNotFound:
    return ArtifactNotFound("there is no artifact with this digest", digest=digest)


def read_withdrawals(connection: Connection, tenant: str, digests: Collection[str]) -> dict[str, str]:
    query = select(_owner.digest, _owner.withdrawn_by).where(
        _owner.tenant == tenant, _owner.digest.in_(digests), _owner.withdrawn_by.is_not(None)
    )
    return {row.digest: row.withdrawn_by for row in connection.execute(query)}


def withdraw_refuted(connection: Connection, tenant: str, later: Artifact, trace_request: str) -> list[str]:
    """Withdraw the tenant's artifacts of the same archive that promise more than the later check, which refutes one.

    Return their digests. If that check rejects the archive, all are withdrawn but those that were rejected before:
    these answer with a warning.
    """
    first = _first_archive(connection, tenant, later)
    of_archive = _owner.tenant == tenant, _owner.archive == first, _owner.withdrawn_by.is_(None)
    query = select(_artifact.digest, _artifact.manifest).join(tables.artifact_owners, _owner.digest == _artifact.digest)
    rows = connection.execute(query.where(*of_archive, _owner.digest != later.digest)).all()
    refuted = [row.digest for row in rows if _is_refuted(row.digest, row.manifest, later)]
    withdrawn = update(tables.artifact_owners).where(_owner.tenant == tenant, _owner.digest.in_(refuted))
    connection.execute(withdrawn.values(withdrawn_by=trace_request, idle_pool=None))
    return refuted


def _is_refuted(digest: str, manifest: str, later: Artifact) -> bool:
    try:
        artifact = _read_manifest(digest, manifest)
    except (ValidationError, ContentDamaged):  # another release stored it, and what it promises cannot be read
        return True
    if artifact.check.verdict is Verdict.REJECTED:
        return False
    return later.check.verdict is Verdict.REJECTED or accepts_more(artifact.contract, later.contract)


def read_contract(connection: Connection, digest: str) -> Contract:
    """Return the contract of an artifact that a model version has.

    Raises ValidationError if it cannot be read, and ContentDamaged.
    """
    query = select(tables.artifacts.c.manifest).where(tables.artifacts.c.digest == digest)
    manifest: str = connection.execute(query).scalar_one()
    return _read_manifest(digest, manifest).contract


def lock_artifacts(connection: Connection, tenant: str) -> None:
    """Keep others who store or withdraw the tenant's artifacts waiting until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        name = f"artifacts of {tenant}"
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


def keep(connection: Connection, tenant: str, artifact: Artifact, signature: str | None = None) -> None:
    """Store an artifact within a transaction. It counts once against the quota of a tenant that has it already.

    A signature takes the place of the one before: this service has just come to the same verdict once more.
    """
    digest = artifact.digest
    row = {"digest": digest, "manifest": artifact.manifest().decode(), "created_at": datetime.now(UTC)}
    row["revision"] = migrations.HEAD
    # The same digest means the same manifest, unless what is stored is damaged: then this mends it.
    mended = {"manifest": row["manifest"]}
    adding = upsert(connection, tables.artifacts).values(row)
    adding = adding.on_conflict_do_update(
        index_elements=["digest"], set_=mended, where=_artifact.manifest != row["manifest"]
    )
    connection.execute(adding)
    # A check that went on from what was withdrawn meanwhile may have kept the promise that was refuted.
    before = select(_owner.withdrawn_by).where(_owner.tenant == tenant, _owner.digest == artifact.continues)
    withdrawn_by = connection.scalar(before)
    owner = {
        "tenant": tenant,
        "digest": digest,
        "archive": _first_archive(connection, tenant, artifact),
        "idle_pool": idle_pool_of(artifact) if withdrawn_by is None else None,
        "withdrawn_by": withdrawn_by,
        "stored_bytes": artifact.stored_bytes,
    }
    connection.execute(upsert(connection, tables.artifact_owners).values(owner).on_conflict_do_nothing())
    if signature is not None:
        signed = update(tables.artifact_owners).where(_owner.tenant == tenant, _owner.digest == digest)
        connection.execute(signed.values(signature=signature))


def _first_archive(connection: Connection, tenant: str, artifact: Artifact) -> str:
    """Return the digest of the archive that was checked first. A further check may put another contract into it."""
    before = select(_owner.archive).where(_owner.tenant == tenant, _owner.digest == artifact.continues)
    return connection.scalar(before) or artifact.archive.digest


def _read_manifest(digest: str, manifest: str) -> _Manifest:
    """Raises ContentDamaged, and ValidationError if it cannot be read."""
    _check_digest(digest, manifest)
    return _Manifest.model_validate_json(manifest)


def _check_digest(digest: str, manifest: str) -> None:
    """Raise ContentDamaged if the manifest is not the one that was stored under the digest."""
    if f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}" != digest:
        raise ContentDamaged(f"the stored manifest of {digest} is damaged", digest=digest)
