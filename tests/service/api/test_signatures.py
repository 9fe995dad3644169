"""Signatures of artifacts, and the public keys to check them with."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi.testclient import TestClient
from sqlalchemy import text

from service.api.context import AppContext
from service.domain.api_key import DEFAULT_TENANT
from service.engine.embedded import EmbeddedEngine
from service.signing.signer import Signer
from service.signing.signing_keys import NO_KEYS, PublicKeys
from service.storage.artifacts import keep as keep_artifact
from service.storage.database import Store
from tests.conftest import NewStore, keep, make_artifact
from tests.service.api.conftest import SIGNER, assert_problem, authorized, make_context, running
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.signature import PublicKey, unseal

EARLIER = PublicKey(Ed25519PrivateKey.generate().public_key())
KEYS = PublicKeys(SIGNER.public_key, [EARLIER])


@pytest.fixture
def context(store: Store, engine: EmbeddedEngine, state_dir: Path) -> AppContext:
    return replace(make_context(store, engine, state_dir), signing_keys=KEYS)


def stored(store: Store, *, signer: Signer | None = SIGNER, tenant: str = DEFAULT_TENANT) -> Artifact:
    artifact = make_artifact(archive=keep(store.blobs, b"an archive"), printouts=keep(store.blobs, b"[]"))
    with store.artifacts._transactions.write() as connection:
        keep_artifact(connection, tenant, artifact, signer.sign(artifact) if signer else None)
    return artifact


def test_the_manifest_names_the_signature_of_its_archive(client: TestClient, store: Store) -> None:
    artifact = stored(store)

    path = client.get(f"/artifacts/{artifact.digest}").json()["links"]["signature"]
    answer = client.get(path)
    statement = unseal(answer.content, SIGNER.public_key)

    assert answer.headers["content-type"] == "application/vnd.dsse.envelope.v1+json"
    assert answer.headers["content-disposition"].endswith('.pt.dsse.json"')
    assert statement.archive == artifact.archive.digest
    assert (statement.predicate.verdict, statement.predicate.artifact) == ("verified", artifact.digest)
    assert client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304


def test_what_was_made_unsigned_stays_so_until_it_is_traced_again(client: TestClient, store: Store) -> None:
    artifact = stored(store, signer=None)
    path = f"/artifacts/{artifact.digest}"
    before = client.get(path)

    problem = assert_problem(client.get(f"{path}/signature"), 404, "signature-not-found")
    stored(store)
    after = client.get(path, headers={"if-none-match": before.headers["etag"]})

    assert "force" in problem["remedy"]
    assert before.json()["links"]["signature"] is None
    assert (after.status_code, client.get(after.json()["links"]["signature"]).status_code) == (200, 200)


def test_a_service_that_signs_nothing_says_why(new_store: NewStore, tmp_path: Path) -> None:
    with running(new_store, tmp_path, signing_keys=NO_KEYS) as (client, store):
        artifact = stored(store, signer=None)

        problem = assert_problem(client.get(f"/artifacts/{artifact.digest}/signature"), 404, "signature-not-found")

    assert "without a sandbox" in problem["detail"]
    assert "sandbox" in problem["remedy"]


def test_what_a_later_check_refuted_is_not_vouched_for_any_more(client: TestClient, store: Store) -> None:
    artifact = stored(store)
    with store.artifacts._transactions.write() as connection:
        connection.execute(text("UPDATE artifact_owners SET withdrawn_by = 'later'"))

    problem = assert_problem(client.get(f"/artifacts/{artifact.digest}/signature"), 409, "artifact-withdrawn")

    assert problem["trace_request"] == "later"


def test_another_tenants_signature_is_not_there(new_store: NewStore, tmp_path: Path) -> None:
    with running(new_store, tmp_path, keys_required=True, signing_keys=KEYS) as (client, store):
        path = f"/artifacts/{stored(store, tenant='acme').digest}/signature"

        assert client.get(path, headers=authorized(store)).status_code == 200
        assert_problem(client.get(path, headers=authorized(store, tenant="others")), 404, "artifact-not-found")


def test_the_report_says_what_a_signature_means(client: TestClient, store: Store) -> None:
    artifact = stored(store, signer=None)
    unsigned = client.get(f"/artifacts/{artifact.digest}/report").text
    stored(store)
    signed = client.get(f"/artifacts/{artifact.digest}/report").text

    assert "none: nothing shows that this service made the archive" in unsigned
    assert f"made with the key {SIGNER.public_key.id}" in signed
    assert "came to this verdict and contract then. It says nothing beyond that." in signed
    assert artifact.archive.digest in signed


def test_a_signature_that_was_damaged_is_not_read(client: TestClient, store: Store) -> None:
    artifact = stored(store)
    with store.artifacts._transactions.write() as connection:
        connection.execute(text("UPDATE artifact_owners SET signature = 'damaged'"))

    assert_problem(client.get(f"/artifacts/{artifact.digest}/report"), 500, "content-damaged")


def test_the_keys_are_listed_with_the_one_that_signs_now(client: TestClient) -> None:
    listed = client.get("/signing-keys").json()["signing_keys"]

    assert [(key["id"], key["is_current"]) for key in listed] == [(SIGNER.public_key.id, True), (EARLIER.id, False)]
    assert {key["algorithm"] for key in listed} == {"Ed25519"}
    for key in listed:
        file = client.get(f"/signing-keys/{key['id']}")
        assert file.headers["content-type"].startswith("application/x-pem-file")
        assert PublicKey.from_pem(file.content).id == PublicKey.from_pem(key["public_key"].encode()).id == key["id"]


def test_a_key_that_was_never_there_is_not_found(client: TestClient) -> None:
    assert_problem(client.get(f"/signing-keys/sha256:{'0' * 64}"), 404, "signing-key-not-found")
    assert_problem(client.get("/signing-keys/current"), 422, "invalid-request")
