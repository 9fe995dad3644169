"""The signature of an archive: a DSSE envelope, which has a statement in it and is signed with an Ed25519 key.

DSSE is what in-toto and Sigstore sign in (https://github.com/secure-systems-lab/dsse). The signature covers the bytes
that are sent, and their type: nothing is written anew to check it, so there is no canonical form to get wrong.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ConfigDict, Field, ValidationError

from tracehouse.artifact.statement import Statement
from tracehouse.frozen import Frozen

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MEDIA_TYPE = "application/vnd.dsse.envelope.v1+json"
# A statement has less than 1 kB.
ENVELOPE_MAX_BYTES = 64 * 1024
# Another's file may have several signatures; ours has one.
_SIGNATURES_MAX = 16


class SignatureInvalid(Exception):
    """The signature is not what it is taken for; the text says why."""


class PublicKeyUnreadable(Exception):
    """There is no Ed25519 public key in the file; the text says what is."""


class PublicKey:
    """A public key. Its id is the SHA-256 of its DER form (SubjectPublicKeyInfo), which `openssl pkey` writes too."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = f"sha256:{hashlib.sha256(der).hexdigest()}"

    @classmethod
    def from_pem(cls, data: bytes) -> "PublicKey":
        """Read a key. Raises PublicKeyUnreadable."""
        if b"PRIVATE KEY" in data:
            raise PublicKeyUnreadable("it has a private key in it: give the public one, and keep this one to yourself")
        try:
            key = serialization.load_pem_public_key(data)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise PublicKeyUnreadable("it has no public key in PEM form") from error
        if not isinstance(key, Ed25519PublicKey):
            raise PublicKeyUnreadable("its key is no Ed25519 key")
        return cls(key)

    @property
    def pem(self) -> str:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_bytes(serialization.Encoding.PEM, form).decode()

    def has_signed(self, signature: bytes, message: bytes) -> bool:
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class EnvelopeSignature(Frozen):
    """A signature of the payload and its type; `keyid` only helps to find the key."""

    model_config = ConfigDict(extra="ignore")

    keyid: str = ""
    sig: str


class Envelope(Frozen):
    """A DSSE envelope in its JSON form, of which a reader ignores the fields that it does not know."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: list[EnvelopeSignature] = Field(min_length=1, max_length=_SIGNATURES_MAX)


def seal(statement: Statement, key_id: str, sign: Callable[[bytes], bytes]) -> str:
    """Return the envelope with the statement in it."""
    payload = statement.document()
    signature = EnvelopeSignature(keyid=key_id, sig=_encode(sign(_authenticated(PAYLOAD_TYPE, payload))))
    envelope = Envelope(payload=_encode(payload), payload_type=PAYLOAD_TYPE, signatures=[signature])
    return envelope.model_dump_json(by_alias=True)


def unseal(data: bytes, key: PublicKey) -> Statement:
    """Return the statement if the holder of this key has signed it. Raises SignatureInvalid."""
    envelope = _read(data)
    payload = _decode(envelope.payload)
    message = _authenticated(envelope.payload_type, payload)
    if not any(key.has_signed(_decode(one.sig), message) for one in envelope.signatures):
        named = ", ".join(one.keyid[:80] for one in envelope.signatures if one.keyid not in ("", key.id))
        other = f": it names the key {named}" if named else ""
        raise SignatureInvalid(f"it was not made with the key {key.id}, or what it signs was changed{other}")
    statement = _statement(envelope.payload_type, payload)
    if statement.predicate.key_id != key.id:
        raise SignatureInvalid(f"what it signs names the key {statement.predicate.key_id}, not {key.id}")
    return statement


def read_unchecked(envelope: str) -> Statement:
    """Return the statement of an envelope whose signature nobody looked at. Raises SignatureInvalid."""
    read = _read(envelope.encode())
    return _statement(read.payload_type, _decode(read.payload))


def _authenticated(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding (PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _read(data: bytes) -> Envelope:
    try:
        return Envelope.model_validate_json(data)
    except ValidationError:
        raise SignatureInvalid("it is no DSSE envelope in JSON") from None


def _statement(payload_type: str, payload: bytes) -> Statement:
    if payload_type != PAYLOAD_TYPE:
        raise SignatureInvalid(f"what it signs is {payload_type[:80]!r}, not {PAYLOAD_TYPE!r}")
    try:
        return Statement.model_validate_json(payload)
    except ValidationError:
        raise SignatureInvalid("what it signs is no statement about an archive that this release can read") from None


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    """Decode either alphabet of base64, as DSSE allows."""
    try:
        return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureInvalid("it is not written in base64") from None
