"""Signing keys: the files of the service's own keys.

    private.pem       the key that signs, which nobody but the service's user may read
    public/ID.pem     the public key of each key that ever signed here: what was signed with an earlier one stays so

The private key may lie in a file elsewhere that the operator names. Then there is no `private.pem`.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from service.disk import sync_directory
from tracehouse.artifact.signature import PublicKey, PublicKeyUnreadable

_KEY_MAX_BYTES = 64 * 1024


class SigningKeyUnusable(Exception):
    """The private key cannot be used; the text says why, and has nothing of the key in it."""


@dataclass(frozen=True)
class PublicKeys:
    """The key that signs now, if one does, and those that signed before."""

    current: PublicKey | None = None
    earlier: Sequence[PublicKey] = ()

    def __iter__(self) -> Iterator[PublicKey]:
        if self.current is not None:
            yield self.current
        yield from self.earlier


NO_KEYS = PublicKeys()


class SigningKeys:
    """The keys in a directory. `given` is the operator's own file of the private key, if there is one."""

    def __init__(self, directory: Path, given: Path | None = None) -> None:
        self._directory = directory.absolute()
        self._given = given

    @property
    def private_file(self) -> Path:
        return self._given or self._directory / "private.pem"

    def open(self) -> Ed25519PrivateKey:
        """Return the private key, which is made if there is none, and keep its public key. Raises SigningKeyUnusable.

        A new key is in the file, on disk, before it signs anything.
        """
        with _translate_errors(self.private_file):
            if self._given is None and not self.private_file.exists():
                self._make()
            key = self._load()
            self._keep_public(key)
        return key

    def current(self) -> PublicKey | None:
        """Return the public key of the private one; None if there is none yet. Raises SigningKeyUnusable."""
        with _translate_errors(self.private_file):
            return PublicKey(self._load().public_key()) if self.private_file.exists() else None

    def public_keys(self, current: PublicKey | None) -> PublicKeys:
        """Return the public keys that are kept here, `current` before all others. Raises SigningKeyUnusable."""
        with _translate_errors(self._public):
            kept = [_parse_public(path) for path in sorted(self._public.glob("*.pem"))]
        return PublicKeys(current, [key for key in kept if current is None or key.id != current.id])

    def rotate(self) -> PublicKey:
        """Put a new private key in place of the present one, which is gone then. Raises SigningKeyUnusable.

        A service that runs signs with the one before until it is started again.
        """
        if self._given is not None:
            raise SigningKeyUnusable(f"SIGNING_KEY names the key: put another one into {self._given}")
        with _translate_errors(self.private_file):
            if self.private_file.exists():
                self._keep_public(self._load())
            self._make()
            key = self._load()
            self._keep_public(key)
        return PublicKey(key.public_key())

    @property
    def _public(self) -> Path:
        return self._directory / "public"

    def _make(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        _replace(self.private_file, pem, mode=0o600)

    def _load(self) -> Ed25519PrivateKey:
        with self.private_file.open("rb") as file:
            if self._given is None and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SigningKeyUnusable(
                    f"other users may read or change {self.private_file}: if none has, chmod 600 it; "
                    "if one may have, tracehouse signing-keys rotate makes another"
                )
            return _parse(file.read(_KEY_MAX_BYTES), self.private_file)

    def _keep_public(self, key: Ed25519PrivateKey) -> None:
        public = PublicKey(key.public_key())
        path = self._public / f"{public.id.removeprefix('sha256:')}.pem"
        if not path.exists():
            self._public.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, public.pem.encode(), mode=0o644)


def _parse_public(path: Path) -> PublicKey:
    try:
        return PublicKey.from_pem(path.read_bytes())
    except PublicKeyUnreadable as error:
        raise SigningKeyUnusable(f"{path} cannot be read: {error}") from error


def _parse(pem: bytes, path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise SigningKeyUnusable(f"the key in {path} has a passphrase: give it without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise SigningKeyUnusable(f"{path} has no private key in PEM form") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyUnusable(f"the key in {path} is no Ed25519 key: openssl genpkey -algorithm ed25519 makes one")
    return key


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    """Write the file so that it is there whole or not at all, with this mode from the beginning."""
    new = path.with_name(f".{uuid4().hex}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(path.parent)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SigningKeyUnusable(f"{error.filename or path} cannot be used ({error.strerror})") from error
