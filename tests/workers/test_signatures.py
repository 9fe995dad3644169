"""What a real worker signs: the archive that it stored, with the contract and the verdict that it came to."""

import hashlib
import io
import json

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from service.engine.further_check import FurtherChecks
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.signing.signer import Signer
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT
from tests.submissions import spec, tensor
from tests.workers.conftest import BUDGET_S, LIMITS, Work, unhurried
from tracehouse.artifact.signature import unseal
from tracehouse.artifact.statement import Statement
from tracehouse.findings.trace_check import CHECK_VERSION
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import CheckBudget
from workers.worker import Worker

SIGNER = Signer(Ed25519PrivateKey.generate())
X = tensor([[1.0, 2.0, 3.0, 4.0]])
NO_TIME = {"budget_s": 1e-6}


@pytest.fixture
def worker(store: Store, torch_zygote: Zygote) -> Worker:
    return Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2, signer=SIGNER)


def statement_of(store: Store, digest: str) -> Statement:
    signature = store.artifacts.signature(TENANT, digest)
    assert signature is not None
    return unseal(signature.encode(), SIGNER.public_key)


def packed(store: Store, archive: str) -> tuple[str, str]:
    """The digest of the contract in a stored archive, and its verdict."""
    extra = {"contract.json": "", "check.json": ""}
    with store.blobs.open(archive) as file:
        torch.jit.load(io.BytesIO(file.read()), _extra_files=extra)
    contract = extra["contract.json"]
    data = contract if isinstance(contract, bytes) else contract.encode()
    return f"sha256:{hashlib.sha256(data).hexdigest()}", json.loads(extra["check.json"])["verdict"]


@pytest.mark.parametrize(("model", "verdict"), [("linear", "verified"), ("branches_on_data", "rejected")])
def test_what_is_signed_is_what_the_archive_carries(
    store: Store, worker: Worker, add, model: str, verdict: str
) -> None:
    request_id = add(unhurried(spec(model, example_inputs=[X])))

    worker.run(request_id, Cancellation())

    request = store.trace_requests.get(TENANT, request_id)
    assert request.failure is None, request.failure
    digest = request.artifacts[0].digest
    artifact = store.artifacts.get(TENANT, digest)
    statement = statement_of(store, digest)
    said = statement.predicate
    assert statement.archive == artifact.archive.digest
    assert (said.contract, said.verdict.value) == packed(store, artifact.archive.digest)
    assert (said.verdict, said.artifact, said.continues) == (Verdict(verdict), digest, None)
    assert (said.check_version, said.key_id) == (CHECK_VERSION, SIGNER.public_key.id)


def test_a_further_check_signs_the_same_archive_with_its_own_contract(store: Store, worker: Worker, add) -> None:
    first_id = add(spec("linear", example_inputs=[X], check=NO_TIME))
    worker.run(first_id, Cancellation())
    first = store.trace_requests.get(TENANT, first_id).artifacts[0].digest
    planned = FurtherChecks(store, NO_ENVIRONMENTS, "2").plan(TENANT, first, CheckBudget(budget_s=BUDGET_S))
    store.trace_requests.add(planned)

    worker.run(planned.id, Cancellation())

    later = store.trace_requests.get(TENANT, planned.id).artifacts[0].digest
    before, after = statement_of(store, first), statement_of(store, later)
    assert before.archive == after.archive
    assert before.predicate.contract == packed(store, after.archive)[0] != after.predicate.contract
    assert (before.predicate.continues, after.predicate.continues) == (None, first)


def test_without_a_key_nothing_is_signed(store: Store, work: Work) -> None:
    request = work(spec("linear", example_inputs=[X]))

    assert store.artifacts.signature(TENANT, request.artifacts[0].digest) is None
