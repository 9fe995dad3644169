"""The statement: what a service says of an archive that it made, in the form of an in-toto Statement v1.

It says that this service made the archive and came to this verdict and this contract. It says nothing beyond that.
"""

from datetime import datetime
from typing import Final, Literal

from pydantic import ConfigDict, Field

from tracehouse.artifact.blob import DIGEST_PATTERN
from tracehouse.findings.verdict import Verdict
from tracehouse.frozen import Frozen

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:tracehouse:verdict:v1"


class _Extensible(Frozen):
    """As in-toto has it, a reader ignores the fields that it does not know."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class DigestSet(_Extensible):
    """The digest of the archive's bytes, as `sha256sum` prints it."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Subject(_Extensible):
    """The archive."""

    name: str = "archive"
    digest: DigestSet


class VerdictPredicate(_Extensible):
    """What is said of the archive.

    `contract` is the digest of the contract as `contract.json` in the archive has it. A further check may have come to
    another contract and verdict than those in the archive, which keeps its bytes: then `continues` names the artifact
    that it went on from.
    """

    verdict: Verdict
    contract: str = Field(pattern=DIGEST_PATTERN)
    artifact: str = Field(pattern=DIGEST_PATTERN)
    continues: str | None = Field(pattern=DIGEST_PATTERN)
    check_version: int = Field(alias="checkVersion")
    key_id: str = Field(alias="keyId", pattern=DIGEST_PATTERN)
    signed_at: datetime = Field(alias="signedAt")


class Statement(_Extensible):
    """The statement. Its bytes are signed as they are, so that no reader must write them again to check them."""

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(STATEMENT_TYPE, alias="_type")
    subject: list[Subject] = Field(min_length=1, max_length=1)
    predicate_type: Literal["urn:tracehouse:verdict:v1"] = Field(PREDICATE_TYPE, alias="predicateType")
    predicate: VerdictPredicate

    @classmethod
    def of(cls, archive: str, predicate: VerdictPredicate) -> "Statement":
        """Make the statement about the archive that has this digest."""
        digest = DigestSet(sha256=archive.removeprefix("sha256:"))
        return cls(subject=[Subject(digest=digest)], predicate=predicate)

    def document(self) -> bytes:
        """Return the statement as JSON."""
        return self.model_dump_json(by_alias=True).encode()

    @property
    def archive(self) -> str:
        """The archive's digest: `sha256:` and 64 hexadecimal digits."""
        return f"sha256:{self.subject[0].digest.sha256}"
