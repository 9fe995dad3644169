import pytest
from sqlalchemy import text

from service.domain.errors import ArtifactNotFound, ContentDamaged
from service.storage.artifacts import keep
from tests.conftest import TENANT, make_artifact, stored_bytes


def test_an_artifact_that_is_not_there_is_named(store):
    with pytest.raises(ArtifactNotFound) as raised:
        store.artifacts.get(TENANT, "sha256:0")

    assert raised.value.facts == {"digest": "sha256:0"}


def test_a_damaged_manifest_is_not_read_and_is_mended_when_it_is_made_again(store):
    artifact, other = make_artifact(entrypoint="net:Right"), make_artifact(entrypoint="net:Other")

    def store_both() -> None:
        with store.artifacts._transactions.write() as connection:
            keep(connection, TENANT, artifact)
            keep(connection, TENANT, other)

    store_both()
    with store.artifacts._transactions.write() as connection:
        connection.execute(text("UPDATE artifacts SET manifest = replace(manifest, 'net:Right', 'net:Wrong')"))

    with pytest.raises(ContentDamaged) as raised:
        store.artifacts.get(TENANT, artifact.digest)
    assert raised.value.facts == {"digest": artifact.digest}
    assert store.artifacts.get(TENANT, other.digest) == other

    store_both()
    assert store.artifacts.get(TENANT, artifact.digest) == artifact


def test_a_signature_is_the_tenants_that_traced_it(store):
    artifact, unsigned = make_artifact(), make_artifact(entrypoint="net:Other")
    with store.artifacts._transactions.write() as connection:
        keep(connection, TENANT, artifact, "signed")
        keep(connection, TENANT, unsigned)
        keep(connection, "others", artifact)

    assert store.artifacts.signature(TENANT, artifact.digest) == "signed"
    assert store.artifacts.signature(TENANT, unsigned.digest) is None
    assert store.artifacts.signature("others", artifact.digest) is None


def test_the_newest_signature_of_one_artifact_stays_and_the_artifact_counts_once(store):
    artifact = make_artifact()
    with store.artifacts._transactions.write() as connection:
        for signature in (None, "first", "second", None):
            keep(connection, TENANT, artifact, signature)

    assert stored_bytes(store) == artifact.stored_bytes
    assert store.artifacts.signature(TENANT, artifact.digest) == "second"
