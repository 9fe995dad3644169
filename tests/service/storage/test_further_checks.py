"""What a further check leaves in the tables: who continues whom, and which artifacts are withdrawn."""

from typing import Any

import pytest

from service.domain.errors import ArtifactNotFound
from service.domain.outcome import Succeeded
from service.domain.trace_request import State, TraceRequest
from service.storage.database import Store
from tests.conftest import TENANT, make_artifact
from tests.contracts import contract
from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import CheckBudget

ARCHIVE = BlobRef(digest="sha256:" + "a" * 64, byte_size=10)
OTHER = BlobRef(digest="sha256:" + "b" * 64, byte_size=10)
DEEP = CheckBudget(budget="deep")


def rows(high: int) -> Contract:
    return contract({"x": ("rows", 4)}, {"rows": f"1..{high}"})


def artifact(high: int, verdict: Verdict = Verdict.VERIFIED, **changes: Any) -> Artifact:
    check = TraceCheck(verdict=verdict, comparisons=[], findings=[], torch=TorchCheck(ran=False))
    return make_artifact(**{"archive": ARCHIVE, "contract": rows(high), "check": check, **changes})


@pytest.fixture
def end(store: Store):
    """End a request with this artifact, registered unless it is rejected."""

    def end(request: TraceRequest, made: Artifact, refutes: str | None = None) -> TraceRequest:
        store.trace_requests.add(request)
        claimed = store.trace_requests.claim(request.id)
        assert claimed is not None
        outcome = Succeeded.of(request.spec, [made]).model_copy(update={"refutes": refutes})
        assert store.trace_requests.finish(request.id, claimed.attempt, outcome)
        return store.trace_requests.get(TENANT, request.id)

    return end


@pytest.fixture
def traced(end, new_request):
    def traced(made: Artifact, **spec: Any) -> TraceRequest:
        return end(new_request(**spec), made)

    return traced


@pytest.fixture
def gone_on(end):
    """End a request that goes on with another one's artifact."""

    def gone_on(before: TraceRequest, made: Artifact, *, refutes: bool = False, budget: CheckBudget = DEEP):
        digest = before.artifacts[0].digest
        request = before.going_on(digest, "cpu", budget, torch_version="2")
        return end(request, made.model_copy(update={"continues": digest}), digest if refutes else None)

    return gone_on


def withdrawn(store: Store, *requests: TraceRequest) -> list[bool]:
    digests = [one.artifacts[0].digest for one in requests]
    known = store.artifacts.withdrawals(TENANT, digests)
    return [digest in known for digest in digests]


def test_later_checks_are_listed_with_the_artifact_that_they_made(store, traced, gone_on):
    first = traced(artifact(4))
    later = gone_on(first, artifact(8))

    [listed] = store.further_checks.later(TENANT, first.artifacts[0].digest)

    assert (listed.trace_request, listed.state, listed.verdict) == (later.id, State.SUCCEEDED, Verdict.VERIFIED)
    assert listed.digest == later.artifacts[0].digest
    assert store.further_checks.later(TENANT, later.artifacts[0].digest) == []
    assert store.further_checks.later("other", first.artifacts[0].digest) == []


def test_the_maker_of_an_artifact_is_the_newest_request_that_has_it(store, traced, gone_on):
    first = traced(artifact(4))
    again = traced(artifact(4))
    later = gone_on(first, artifact(8))

    assert store.further_checks.maker(TENANT, first.artifacts[0].digest).id == again.id
    assert store.further_checks.maker(TENANT, later.artifacts[0].digest).id == later.id
    with pytest.raises(ArtifactNotFound):
        store.further_checks.maker("other", first.artifacts[0].digest)


def test_a_wider_contract_withdraws_nothing(store, traced, gone_on):
    first = traced(artifact(4))
    gone_on(first, artifact(8))

    assert withdrawn(store, first) == [False]


def test_a_rejected_archive_is_withdrawn_in_all_its_artifacts(store, traced, gone_on):
    first = traced(artifact(4))
    second = gone_on(first, artifact(8))
    other = traced(artifact(4, archive=OTHER), model="other")

    gone_on(first, artifact(4, Verdict.REJECTED), refutes=True, budget=CheckBudget(budget_s=500))

    assert withdrawn(store, first, second, other) == [True, True, False]


def test_of_a_contract_that_is_refuted_in_part_the_narrower_artifacts_stay(store, traced, gone_on):
    first = traced(artifact(4))
    second = gone_on(first, artifact(8))

    third = gone_on(second, artifact(6, archive=OTHER), refutes=True)

    assert withdrawn(store, first, second, third) == [False, True, False]


def test_what_is_known_of_an_archive_that_carries_another_contract_now_holds_of_the_first(store, traced, gone_on):
    first = traced(artifact(4))
    second = gone_on(first, artifact(8))
    third = gone_on(second, artifact(6, archive=OTHER), refutes=True)

    gone_on(third, artifact(6, Verdict.REJECTED, archive=OTHER), refutes=True)

    assert withdrawn(store, first, second, third) == [True, True, True]


def test_what_was_rejected_before_goes_on_answering_with_its_warning(store, traced, gone_on):
    first = traced(artifact(4, Verdict.REJECTED), accept_unsound=True)

    gone_on(first, artifact(5, Verdict.REJECTED), refutes=True)

    assert withdrawn(store, first) == [False]


def test_another_tenants_artifact_stays(store, traced, end, new_request, gone_on):
    first = traced(artifact(4))
    theirs = new_request(tenant="other")
    store.trace_requests.add(theirs)
    store.trace_requests.claim(theirs.id)
    store.trace_requests.finish(theirs.id, 1, Succeeded.of(theirs.spec, [artifact(4)]))

    gone_on(first, artifact(4, Verdict.REJECTED), refutes=True)

    assert withdrawn(store, first) == [True]
    assert store.artifacts.withdrawals("other", [first.artifacts[0].digest]) == {}


def test_what_refutes_the_default_version_answers_in_its_place(store, traced, gone_on):
    first = traced(artifact(8))

    later = gone_on(first, artifact(6), refutes=True)

    assert later.promotion.promoted
    assert store.models.get(TENANT, "net").default_version == 2


def test_a_version_that_was_promoted_always_gives_its_place_to_no_later_check_that_is_narrower(store, traced, gone_on):
    first = traced(artifact(4), promote="always")
    traced(artifact(8, archive=OTHER))
    assert store.models.get(TENANT, "net").default_version == 2

    later = gone_on(first, artifact(6))

    assert not later.promotion.promoted
    assert store.models.get(TENANT, "net").default_version == 2


def test_the_same_content_is_answered_by_the_check_that_refuted_in_part(store, traced, gone_on):
    """The request that goes on names the artifact that it withdraws, and is not withdrawn itself."""
    first = traced(artifact(8))
    later = gone_on(first, artifact(6), refutes=True)

    again = first.going_on(first.artifacts[0].digest, "cpu", DEEP, torch_version="2")

    assert store.trace_requests.add(again).id == later.id


def test_each_version_with_a_withdrawn_artifact_says_so(store, traced, gone_on):
    first = traced(artifact(8))
    digest = first.artifacts[0].digest
    later = gone_on(first, artifact(6), refutes=True)

    [before, after] = store.models.get(TENANT, "net").versions
    assert (before.withdrawn, after.withdrawn) == ({digest: later.id}, {})
    assert traced(artifact(8)).model.version == 3
    assert store.models.get(TENANT, "net").versions[2].withdrawn == {digest: later.id}


def test_a_check_that_went_on_from_what_was_withdrawn_meanwhile_is_withdrawn_too(store, traced, gone_on):
    """It had begun before the other one ended, and so it kept what that one refuted."""
    first = traced(artifact(8))
    refuting = gone_on(first, artifact(6), refutes=True)

    late = gone_on(first, artifact(16), budget=CheckBudget(budget_s=500))

    assert withdrawn(store, first, refuting, late) == [True, False, True]
    model = store.models.get(TENANT, "net")
    assert model.versions[2].withdrawn == {late.artifacts[0].digest: refuting.id}
    assert (late.promotion.promoted, model.default_version) == (False, 2)
