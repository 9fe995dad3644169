"""The list of signing keys that anybody may have, over HTTP and from the command line."""

from typing import Literal, Self

from pydantic import Field

from service.signing.signing_keys import PublicKeys
from tracehouse.artifact.signature import PublicKey
from tracehouse.frozen import Frozen


class SigningKey(Frozen):
    """A public key."""

    id: str = Field(description="`sha256:` and the SHA-256 of the key in DER form (SubjectPublicKeyInfo).")
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str = Field(description="The key in PEM form, as `tracehouse verify --key` reads it from a file.")
    is_current: bool = Field(description="Whether the service signs with it now.")

    @classmethod
    def of(cls, key: PublicKey, *, is_current: bool) -> Self:
        """Return what anybody may know of the key."""
        return cls(id=key.id, public_key=key.pem, is_current=is_current)


class SigningKeyList(Frozen):
    """The key that signs now, if one does, and then those that signed before."""

    signing_keys: list[SigningKey]

    @classmethod
    def of(cls, keys: PublicKeys) -> Self:
        """Return what anybody may know of the keys."""
        return cls(signing_keys=[SigningKey.of(key, is_current=key is keys.current) for key in keys])
