"""The files of the signing keys: who may read them, and what is left of a key that signs no more."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from service.signing.signer import Signer
from service.signing.signing_keys import SigningKeys, SigningKeyUnusable

PKCS8 = serialization.PrivateFormat.PKCS8


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "signing"


@pytest.fixture
def keys(directory: Path) -> SigningKeys:
    return SigningKeys(directory)


def id_of(keys: SigningKeys) -> str:
    return Signer(keys.open()).public_key.id


def given(path: Path, key: Ed25519PrivateKey | X25519PrivateKey, passphrase: bytes | None = None) -> Path:
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, PKCS8, encryption))
    return path


def test_the_first_start_makes_a_key_that_only_its_user_may_read(keys: SigningKeys, directory: Path) -> None:
    keys.open()

    assert stat.S_IMODE((directory / "private.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert b"PRIVATE" not in b"".join(path.read_bytes() for path in (directory / "public").iterdir())


def test_the_next_start_finds_the_same_key(keys: SigningKeys, directory: Path) -> None:
    assert id_of(keys) == id_of(SigningKeys(directory))


def test_a_key_that_others_may_read_signs_nothing(keys: SigningKeys, directory: Path) -> None:
    keys.open()
    (directory / "private.pem").chmod(0o640)

    with pytest.raises(SigningKeyUnusable, match="other users may read"):
        keys.open()


def test_to_look_makes_no_key(keys: SigningKeys, directory: Path) -> None:
    assert (keys.current(), [*keys.public_keys(None)]) == (None, [])
    assert not directory.exists()


def test_an_earlier_key_stays_in_the_list(keys: SigningKeys, directory: Path) -> None:
    first = id_of(keys)
    private = (directory / "private.pem").read_bytes()

    made = keys.rotate()

    assert [key.id for key in keys.public_keys(keys.current())] == [made.id, first]
    assert id_of(keys) == made.id != first
    assert private not in [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    assert stat.S_IMODE((directory / "private.pem").stat().st_mode) == 0o600


def test_a_key_of_the_operators_own_signs_and_is_left_where_it_is(directory: Path, tmp_path: Path) -> None:
    first = id_of(SigningKeys(directory))
    private = Ed25519PrivateKey.generate()
    own = given(tmp_path / "own.pem", private)
    own.chmod(0o444)  # as a file of secrets may be mounted
    keys = SigningKeys(directory, own)

    assert id_of(keys) == Signer(private).public_key.id
    assert [key.id for key in keys.public_keys(keys.current())] == [id_of(keys), first]
    with pytest.raises(SigningKeyUnusable, match="SIGNING_KEY names the key"):
        keys.rotate()


def test_what_cannot_sign_is_refused_and_not_shown(directory: Path, tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    (tmp_path / "text.pem").write_text("-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n")
    for own, why in [
        (tmp_path / "text.pem", "no private key in PEM"),
        (tmp_path / "none.pem", "cannot be used"),
        (given(tmp_path / "locked.pem", private, b"passphrase"), "has a passphrase"),
        (given(tmp_path / "other.pem", X25519PrivateKey.generate()), "no Ed25519 key"),
    ]:
        with pytest.raises(SigningKeyUnusable, match=why) as refused:
            SigningKeys(directory, own).open()
        assert "secret" not in str(refused.value)
