"""Signatures: DSSE envelopes with in-toto statements, and what is not taken for one."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tracehouse.artifact.signature import PublicKey, PublicKeyUnreadable, SignatureInvalid, seal, unseal
from tracehouse.artifact.statement import Statement, VerdictPredicate
from tracehouse.findings.verdict import Verdict

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = PublicKey(PRIVATE.public_key())
ARCHIVE = "sha256:" + "a" * 64
STATEMENT = Statement.of(
    ARCHIVE,
    VerdictPredicate(
        verdict=Verdict.VERIFIED,
        contract="sha256:" + "b" * 64,
        artifact="sha256:" + "c" * 64,
        continues=None,
        check_version=14,
        key_id=PUBLIC.id,
        signed_at=datetime(2026, 11, 25, 12, tzinfo=UTC),
    ),
)


def sealed(statement: Statement = STATEMENT) -> dict[str, Any]:
    envelope: dict[str, Any] = json.loads(seal(statement, PUBLIC.id, PRIVATE.sign))
    return envelope


def opened(envelope: dict[str, Any], key: PublicKey = PUBLIC) -> Statement:
    return unseal(json.dumps(envelope).encode(), key)


def signing(payload: bytes, payload_type: str = "application/vnd.in-toto+json") -> dict[str, Any]:
    """An envelope that the right key has signed, whatever is in it: as DSSE's protocol.md has it."""
    message = f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} ".encode() + payload
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"sig": base64.b64encode(PRIVATE.sign(message)).decode()}],
    }


def test_what_was_signed_is_read_again() -> None:
    envelope = sealed()

    assert opened(envelope) == STATEMENT
    assert opened(envelope).archive == ARCHIVE
    assert envelope["signatures"][0]["keyid"] == PUBLIC.id


def test_the_statement_is_in_totos() -> None:
    envelope = sealed()
    statement = json.loads(base64.b64decode(envelope["payload"]))

    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert statement == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "archive", "digest": {"sha256": "a" * 64}}],
        "predicateType": "urn:tracehouse:verdict:v1",
        "predicate": {
            "verdict": "verified",
            "contract": "sha256:" + "b" * 64,
            "artifact": "sha256:" + "c" * 64,
            "continues": None,
            "checkVersion": 14,
            "keyId": PUBLIC.id,
            "signedAt": "2026-11-25T12:00:00Z",
        },
    }


def test_another_writers_envelope_of_the_same_form_is_read() -> None:
    """Its base64 has the other alphabet, and it has fields that this release does not know."""
    envelope = sealed()
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["later"] = statement["later"] = "?>"
    other = signing(json.dumps(statement).encode())
    other = {**other, "further": 1, "payload": other["payload"].replace("+", "-").replace("/", "_")}

    assert opened(other) == STATEMENT


@pytest.mark.parametrize("change", [(b"verified", b"rejected"), (b"a" * 64, b"d" * 64), (b"b" * 64, b"d" * 64)])
def test_what_was_changed_is_not_signed(change: tuple[bytes, bytes]) -> None:
    envelope = sealed()
    payload = base64.b64decode(envelope["payload"])
    assert change[0] in payload
    envelope["payload"] = base64.b64encode(payload.replace(*change)).decode()

    with pytest.raises(SignatureInvalid, match="what it signs was changed"):
        opened(envelope)


def test_another_key_has_not_signed_it() -> None:
    other = PublicKey(Ed25519PrivateKey.generate().public_key())

    with pytest.raises(SignatureInvalid, match=f"not made with the key {other.id}.*names the key {PUBLIC.id}"):
        opened(sealed(), other)


def test_what_was_signed_as_something_else_is_no_statement() -> None:
    payload = STATEMENT.document()

    with pytest.raises(SignatureInvalid, match="text/plain"):
        opened(signing(payload, "text/plain"))
    with pytest.raises(SignatureInvalid, match="was changed"):
        opened(signing(payload, "text/plain") | {"payloadType": "application/vnd.in-toto+json"})


@pytest.mark.parametrize(
    "change",
    [
        {"predicateType": "https://slsa.dev/provenance/v1"},
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"predicate": {"verdict": "verified"}},
    ],
)
def test_another_statement_says_nothing_of_a_verdict(change: dict[str, Any]) -> None:
    statement = json.loads(STATEMENT.document()) | change

    with pytest.raises(SignatureInvalid, match="no statement"):
        opened(signing(json.dumps(statement).encode()))


def test_a_statement_in_the_name_of_another_key_is_not_believed() -> None:
    predicate = STATEMENT.predicate.model_copy(update={"key_id": "sha256:" + "0" * 64})

    with pytest.raises(SignatureInvalid, match="names the key"):
        opened(sealed(STATEMENT.model_copy(update={"predicate": predicate})))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"payload": "", "payloadType": "", "signatures": []}',
        b'{"payload": "!", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "AAAA"}]}',
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        unseal(data, PUBLIC)


def test_a_key_is_read_from_its_file_and_has_the_id_that_openssl_computes() -> None:
    read = PublicKey.from_pem(PUBLIC.pem.encode())

    assert read.pem == PUBLIC.pem
    # openssl pkey -pubin -outform DER | sha256sum
    assert read.id == PUBLIC.id == "sha256:a050837d85070582ccf7394b0988847cc312cb88259b894899f6f239cf1791a5"


def pem_of(key: Any, private: bool = False) -> bytes:
    if private:
        form = serialization.PrivateFormat.PKCS8
        return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        (b"no key", "no public key"),
        (pem_of(PRIVATE, private=True), "private key"),
        (pem_of(X25519PrivateKey.generate()), "no Ed25519 key"),
    ],
)
def test_what_is_no_public_key_is_refused(pem: bytes, why: str) -> None:
    with pytest.raises(PublicKeyUnreadable, match=why):
        PublicKey.from_pem(pem)
