"""The origin of an archive: whether it is the file that a digest names, or that the holder of a key signed.

What a file says of itself is worth what its origin is worth.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.usage_errors import refuse
from tracehouse.findings.verdict import Verdict

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from tracehouse.artifact.signature import PublicKey
    from tracehouse.artifact.statement import Statement
    from workers.contract_check import CheckLine, Mark

SIGNATURE_SUFFIX = ".dsse.json"
_KEY_MAX_BYTES = 64 * 1024


class ArchiveOrigin:
    """What the caller knows the archive by: its digest, a public key with a signature, both, or nothing."""

    def __init__(self, digest: str | None, key: "PublicKey | None", signature: bytes) -> None:
        self._digest = digest
        self._key = key
        self._signature = signature
        self._statement: Statement | None = None

    @property
    def is_asked_for(self) -> bool:
        return self._digest is not None or self._key is not None

    def check_file(self, actual: str) -> Iterator["CheckLine"]:
        """Yield what follows from the digest of the file's bytes. After a failure, the file is not to be opened."""
        from tracehouse.artifact.signature import SignatureInvalid, unseal
        from workers.contract_check import CheckLine

        if self._digest is not None:
            alike = self._digest == actual
            text = f"the file is the one that {self._digest} names"
            other = (
                f"the file is another one than {self._digest}: compare `archive.digest` of GET /artifacts/{{digest}}"
            )
            yield CheckLine("ok" if alike else "FAIL", "digest", text if alike else other)
        if self._key is None:
            return
        try:
            statement = unseal(self._signature, self._key)
        except SignatureInvalid as error:
            yield CheckLine("FAIL", "signature", str(error))
            return
        if statement.archive != actual:
            yield CheckLine("FAIL", "signature", f"it is that of another archive, {statement.archive}")
            return
        self._statement = statement
        at = statement.predicate.signed_at.isoformat()
        yield CheckLine("ok", "signature", f"made for this file with the key {self._key.id}, {at}")

    def check_content(self, verdict: Verdict, contract: str) -> Iterator["CheckLine"]:
        """Yield how the signed verdict and contract are related to those in the file, if there is a signature."""
        from workers.contract_check import CheckLine

        if self._statement is None:
            return
        said = self._statement.predicate
        if said.continues is None and said.verdict is not verdict:
            yield CheckLine("FAIL", "verdict", f"{said.verdict.value} is signed, and the file says {verdict.value}")
            return
        if said.continues is None and said.contract != contract:
            yield CheckLine("FAIL", "contract", f"another one is signed than the one in the file: {said.contract}")
            return
        marks: dict[Verdict, Mark] = {Verdict.REJECTED: "FAIL", Verdict.SELF_CONSISTENT: "WARN"}
        text = f"{said.verdict.value}, says whoever has this key (check version {said.check_version}, {said.artifact})"
        yield CheckLine(marks.get(said.verdict, "ok"), "verdict", text)
        if said.contract == contract:
            yield CheckLine("ok", "contract", "the one in the file is the one that is signed")
        else:
            text = f"a further check came to another one than the file has, and this was not checked: {said.contract}"
            yield CheckLine("WARN", "contract", text)


def read_origin(archive: Path, digest: str | None, key: Path | None, signature: Path | None) -> ArchiveOrigin:
    """Read the files that the options name. What cannot be read ends the command with 2."""
    if key is None:
        if signature is not None:
            refuse("--signature needs --key: without a key that you trust, a signature shows nothing")
        return ArchiveOrigin(digest, None, b"")
    return ArchiveOrigin(digest, _read_key(key), _read_signature(archive, signature))


def _read_key(path: Path) -> "PublicKey":
    from tracehouse.artifact.signature import PublicKey, PublicKeyUnreadable

    try:
        return PublicKey.from_pem(_read(path, _KEY_MAX_BYTES))
    except PublicKeyUnreadable as error:
        refuse(f"{path}: {error}")


def _read_signature(archive: Path, given: Path | None) -> bytes:
    from tracehouse.artifact.signature import ENVELOPE_MAX_BYTES

    path = given or archive.with_name(archive.name + SIGNATURE_SUFFIX)
    if not path.is_file():
        refuse(
            f"There is no signature {path}: GET /artifacts/{{digest}}/signature has it; name its file by --signature"
        )
    return _read(path, ENVELOPE_MAX_BYTES)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        refuse(f"{path} cannot be read ({error.strerror})")
    if len(content) > max_bytes:
        refuse(f"{path} has more than {max_bytes} bytes")
    return content
