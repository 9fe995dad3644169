"""What goes with a trace request, and what stays because something else names it."""

from contextlib import suppress
from functools import partial
from threading import Barrier, Thread

import pytest

from service.domain.errors import (
    ArtifactNotFound,
    TraceRequestContinued,
    TraceRequestHasVersion,
    TraceRequestNotFound,
)
from service.domain.idempotency import Idempotency
from service.domain.outcome import NotTraced, Succeeded
from service.domain.trace_request import State, TraceRequest
from service.storage.database import Store
from tests.conftest import TENANT, stored_bytes
from tests.service.storage.test_tenants import refute
from tracehouse.errors import Failure
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.trace_spec import CheckBudget


def delete_version(store: Store, request: TraceRequest) -> None:
    """So that nothing but the request names what it made."""
    assert request.model is not None
    store.models.delete(request.tenant, request.model.name)


def test_with_its_request_goes_all_that_counted(store, register, new_request):
    nothing = stored_bytes(store)
    made = register("net")
    delete_version(store, made)
    assert stored_bytes(store) > nothing == 0

    store.trace_requests.delete(TENANT, made.id)

    assert stored_bytes(store) == 0
    with pytest.raises(TraceRequestNotFound):
        store.trace_requests.status(TENANT, made.id)
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get(TENANT, made.artifacts[0].digest)
    assert store.events.after(TENANT, made.id, 0, 10) == []


def test_an_artifact_stays_and_counts_as_long_as_another_request_made_it_too(store, register):
    first, second = register("net"), register("net")
    delete_version(store, first)
    assert first.artifacts[0].digest == second.artifacts[0].digest
    both = stored_bytes(store)

    store.trace_requests.delete(TENANT, first.id)

    artifact = store.artifacts.get(TENANT, second.artifacts[0].digest)
    assert artifact.stored_bytes < stored_bytes(store) < both
    store.trace_requests.delete(TENANT, second.id)
    assert stored_bytes(store) == 0


def test_an_artifact_stays_as_long_as_another_model_serves_it(store, register):
    gone, served = register("gone"), register("served")
    delete_version(store, gone)

    store.trace_requests.delete(TENANT, gone.id)

    assert store.artifacts.get(TENANT, served.artifacts[0].digest)
    with pytest.raises(TraceRequestHasVersion):
        store.trace_requests.delete(TENANT, served.id)


def test_the_same_artifact_of_another_tenant_stays(store, register):
    ours, theirs = register("net"), register("net", "theirs")
    delete_version(store, ours)

    store.trace_requests.delete(TENANT, ours.id)

    assert store.artifacts.get("theirs", theirs.artifacts[0].digest)
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get(TENANT, ours.artifacts[0].digest)


def test_the_request_whose_check_withdrew_an_artifact_stays_with_the_version_that_says_so(store, register, success):
    made = register("net")
    refute(store, made, success)
    [version] = store.models.get(TENANT, "net").versions
    [refuting] = {*version.withdrawn.values()}

    with pytest.raises(TraceRequestHasVersion) as refused:
        store.trace_requests.delete(TENANT, refuting)

    assert refused.value.facts["version"] == 1
    delete_version(store, made)
    store.trace_requests.delete(TENANT, refuting)


def test_what_a_further_check_still_needs_stays_until_that_has_ended(store, register):
    made = register("net")
    digest = made.artifacts[0].digest
    delete_version(store, made)
    later = store.trace_requests.add(made.going_on(digest, "cpu", CheckBudget(budget="deep"), torch_version="2"))

    with pytest.raises(TraceRequestContinued) as refused:
        store.trace_requests.delete(TENANT, made.id)

    assert refused.value.facts["trace_request"] == later.id
    assert store.artifacts.get(TENANT, digest)
    store.trace_requests.cancel(TENANT, later.id)
    store.trace_requests.delete(TENANT, made.id)
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get(TENANT, digest)


def test_a_submission_that_meets_a_deletion_of_the_same_content_is_answered(store, new_request, success, at_once):
    """Each time, the submission finds the earlier request, or is a new one; never is it left without a row."""
    for number in range(10):
        first = store.trace_requests.add(new_request(f"net{number}", force=False))
        store.trace_requests.claim(first.id)
        failed = NotTraced(failure=Failure(slug="model-raised", detail="boom"))
        outcome = success(first, Verdict.REJECTED) if number % 2 else failed
        store.trace_requests.finish(first.id, 1, outcome)
        again = new_request(f"net{number}", force=False)
        key = Idempotency.of(f"key {number}", again)

        deleted, found = at_once(
            partial(store.trace_requests.delete, TENANT, first.id), partial(store.trace_requests.add, again, key)
        )

        assert deleted is None
        assert found.id in (first.id, again.id)
        if found.id == again.id:
            assert store.trace_requests.status(TENANT, again.id).state is State.QUEUED


def test_an_artifact_that_is_made_again_while_its_request_is_deleted_stays(store, register, new_request, success):
    for _ in range(10):
        made = register("net")
        delete_version(store, made)
        other = store.trace_requests.add(new_request("net", "theirs"))
        store.trace_requests.claim(other.id)
        outcome = Succeeded.of(other.spec, success(other).artifacts)
        barrier = Barrier(2)

        def delete(made=made, barrier=barrier):
            barrier.wait()
            store.trace_requests.delete(TENANT, made.id)

        deleting = Thread(target=delete)
        deleting.start()
        barrier.wait()
        assert store.trace_requests.finish(other.id, 1, outcome)
        deleting.join()

        digest = outcome.artifacts[0].digest
        assert store.artifacts.get("theirs", digest)
        store.models.delete("theirs", "net")
        with suppress(TraceRequestNotFound):
            store.trace_requests.delete("theirs", other.id)
        with pytest.raises(ArtifactNotFound):
            store.artifacts.get("theirs", digest)
