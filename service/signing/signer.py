"""The signer: signs what this service says of an artifact that it made."""

from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tracehouse.artifact.archive_extras import contract_digest, contract_document
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.signature import PublicKey, seal
from tracehouse.artifact.statement import Statement, VerdictPredicate
from tracehouse.findings.trace_check import CHECK_VERSION


class Signer:
    """Signs with one private key. Threads may share it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = PublicKey(key.public_key())

    def sign(self, artifact: Artifact) -> str:
        """Return the signature of the artifact, whose check has just ended, as a DSSE envelope."""
        predicate = VerdictPredicate(
            verdict=artifact.check.verdict,
            contract=contract_digest(contract_document(artifact.contract)),
            artifact=artifact.digest,
            continues=artifact.continues,
            check_version=CHECK_VERSION,
            key_id=self.public_key.id,
            signed_at=datetime.now(UTC).replace(microsecond=0),
        )
        return seal(Statement.of(artifact.archive.digest, predicate), self.public_key.id, self._key.sign)
