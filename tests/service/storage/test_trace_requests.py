import re
import subprocess
import sys
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import create_engine, insert, select, text

import migrations
from service.domain import trace_request
from service.domain.errors import (
    IdempotencyKeyReused,
    InvalidCursor,
    QueueFull,
    TraceRequestEnded,
    TraceRequestNotFound,
)
from service.domain.idempotency import Idempotency
from service.domain.model import ModelRef
from service.domain.outcome import NotTraced, RanEagerly, Succeeded
from service.domain.trace_request import Stage, State, TraceRequest
from service.storage import tables
from service.storage.transactions import Transactions, connect
from tests.conftest import TENANT, make_artifact, stored_bytes
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict

OURS = Failure(slug="tracer-lost", detail="the child vanished")
THEIRS = Failure(slug="model-raised", detail="boom", facts={"line": 3})


def states(store, request_id: str) -> list[str]:
    """The states that a watcher of the request was told of."""
    told = [event.data["state"] for event in store.events.after(TENANT, request_id, 0, 1000) if event.kind != "log"]
    return [state for before, state in zip([None, *told], told, strict=False) if state != before]


def test_a_request_is_read_as_it_was_submitted(store, new_request):
    spec = new_request(
        source={"files": {"pkg/net.py": "s = '\x00 ü 🎈'\r\n"}, "entrypoint": "pkg.net:Net"},
        example_inputs=[
            {"datatype": "FP32", "shape": [2], "data": [0.1, "NaN"]},
            {"tuple": [1, 2.5, True, None, "text"]},
            {"deep": [{"datatype": "INT64", "shape": [8], "random": {"seed": 3, "low": 0, "high": 9}}]},
            {"file": "inputs.safetensors", "key": "x"},
        ],
        check={"check_inputs": [[2**60]]},
    ).spec
    files = {"inputs.safetensors": BlobRef(digest="sha256:" + "a" * 64, byte_size=5)}
    request = TraceRequest.new(spec, files, torch_version="2", tenant=TENANT)

    stored = store.trace_requests.add(request)

    assert stored == request.model_copy(update={"revision": migrations.HEAD})
    assert store.trace_requests.get(TENANT, request.id).model_dump_json() == stored.model_dump_json()


def test_a_request_that_is_not_there_is_named(store):
    for ask in (store.trace_requests.get, store.trace_requests.status, store.trace_requests.cancel):
        with pytest.raises(TraceRequestNotFound) as raised:
            ask(TENANT, "nowhere")

        assert raised.value.facts == {"id": "nowhere"}


def test_its_status_is_the_request_without_what_was_submitted(store, new_request):
    request = store.trace_requests.add(new_request())

    status = store.trace_requests.status(TENANT, request.id)

    assert status.model_dump() == request.model_dump(exclude={"spec", "files"})


def test_a_claim_is_the_next_attempt(store, new_request):
    request = store.trace_requests.add(new_request())

    claimed = store.trace_requests.claim(request.id)

    assert (claimed.state, claimed.stage, claimed.attempt) == (State.RUNNING, Stage.LOADING, 1)
    assert claimed.started_at >= request.created_at
    assert claimed.spec == request.spec


def test_only_a_queued_request_can_be_claimed(store, new_request):
    running, cancelled = (store.trace_requests.add(new_request()) for _ in range(2))
    store.trace_requests.claim(running.id)
    store.trace_requests.cancel(TENANT, cancelled.id)

    assert store.trace_requests.claim(running.id) is None
    assert store.trace_requests.claim(cancelled.id) is None
    assert store.trace_requests.claim("nowhere") is None


def test_of_claims_at_the_same_time_one_succeeds(store, new_request, at_once):
    for _ in range(5):
        request = store.trace_requests.add(new_request())

        claims = at_once(*[partial(store.trace_requests.claim, request.id)] * 8)

        assert [claim.attempt for claim in claims if claim is not None] == [1]


def test_a_claim_costs_the_same_however_many_wait(store, database_url, new_request, plans_of):
    alone = plans_of(partial(store.trace_requests.claim, store.trace_requests.add(new_request()).id))
    request = store.trace_requests.add(new_request())
    queue_copies(database_url, request, 10_000)

    among_many = plans_of(partial(store.trace_requests.claim, request.id))

    assert store.trace_requests.status(TENANT, request.id).state is State.RUNNING
    assert [statement for statement, _ in among_many] == [statement for statement, _ in alone]
    reads_a_whole_table = re.compile(r"\bSCAN\b|Seq Scan")
    assert [plan for _, plan in among_many if reads_a_whole_table.search(plan)] == []
    [claiming] = [
        plan for statement, plan in among_many if "started_at" in statement and statement.startswith("UPDATE")
    ]
    assert re.search(r"sqlite_autoindex_trace_requests_1 \(id=\?\)|using pk_trace_requests ", claiming)


def queue_copies(database_url: str, request: TraceRequest, number: int) -> None:
    """Let so many requests wait beside this one, and have the database count its rows."""
    transactions = Transactions(connect(database_url))
    with transactions.write() as connection:
        for table in (tables.trace_requests, tables.submissions, tables.sources, tables.events):
            own = table.c.id if "id" in table.c else table.c.request_id
            row = connection.execute(select(table).where(own == request.id)).mappings().first()
            copies = [{**row, own.name: f"copy-{place}"} for place in range(number)]
            connection.execute(insert(table), copies)
        connection.execute(text("ANALYZE"))
    transactions.close()


def test_an_attempt_that_was_claimed_again_changes_nothing(store, new_request, success):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    store.trace_requests.release(request.id, 1)
    newest = store.trace_requests.claim(request.id)
    events = store.events.after(TENANT, request.id, 0, 1000)

    assert not store.trace_requests.report(request.id, 1, Stage.TRACING, 0.5)
    assert not store.trace_requests.finish(request.id, 1, success(request))
    assert not store.trace_requests.finish(request.id, 1, NotTraced(failure=THEIRS))
    assert not store.trace_requests.release(request.id, 1)
    assert not store.trace_requests.retry(request.id, 1, OURS, attempts=1)

    assert newest.attempt == 2
    assert store.trace_requests.get(TENANT, request.id) == newest
    assert store.events.after(TENANT, request.id, 0, 1000) == events
    assert store.models.list(TENANT, 10).items == []


def test_what_an_attempt_reports_is_seen(store, new_request):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)

    assert store.trace_requests.report(request.id, 1, Stage.CHECKING, 0.75)

    status = store.trace_requests.status(TENANT, request.id)
    assert (status.stage, status.progress) == (Stage.CHECKING, 0.75)
    assert store.events.after(TENANT, request.id, 2, 10)[0].data == {
        "stage": "checking",
        "progress": 0.75,
        "state": "running",
    }


def test_a_success_keeps_the_artifact_and_registers_the_next_version(store, new_request, success):
    store.trace_requests.add(request := new_request("net"))
    store.trace_requests.claim(request.id)
    outcome = success(request, Verdict.RESTRICTED)

    assert store.trace_requests.finish(request.id, 1, outcome)

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.stage, ended.progress) == (State.SUCCEEDED, Stage.DONE, 1.0)
    assert (ended.verdict, ended.findings) == (Verdict.RESTRICTED, outcome.findings)
    assert (ended.model.name, ended.model.version) == ("net", 1)
    assert store.artifacts.get(TENANT, ended.artifacts[0].digest) == outcome.artifacts[0]
    version = store.models.resolve(TENANT, ModelRef.parse("net"))
    assert (version.artifacts, version.trace_request) == ({"cpu": outcome.artifacts[0].digest}, request.id)
    assert states(store, request.id) == ["queued", "running", "succeeded"]


def test_an_attempt_ends_once(store, new_request, success, at_once):
    store.trace_requests.add(request := new_request())
    store.trace_requests.claim(request.id)

    ends = at_once(*[lambda: store.trace_requests.finish(request.id, 1, success(request))] * 6)

    assert sorted(ends) == [False] * 5 + [True]
    assert [version.version for version in store.models.get(TENANT, "net").versions] == [1]
    assert [event.kind for event in store.events.after(TENANT, request.id, 0, 100)].count("end") == 1


def test_two_requests_with_the_same_artifact_are_two_versions(store, register):
    first, second = register("net"), register("net")

    assert first.artifacts == second.artifacts
    assert [version.version for version in store.models.get(TENANT, "net").versions] == [1, 2]


def test_versions_of_ends_at_the_same_time_are_numbered_without_gaps(store, new_request, success, at_once):
    requests = [store.trace_requests.add(new_request()) for _ in range(8)]
    for request in requests:
        store.trace_requests.claim(request.id)

    at_once(*[lambda r=request: store.trace_requests.finish(r.id, 1, success(r)) for request in requests])

    assert [version.version for version in store.models.get(TENANT, "net").versions] == [*range(1, 9)]


def test_a_rejected_artifact_is_kept_but_is_no_version(store, new_request, success):
    store.trace_requests.add(request := new_request())
    store.trace_requests.claim(request.id)

    store.trace_requests.finish(request.id, 1, success(request, Verdict.REJECTED))

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.verdict, ended.model) == (State.SUCCEEDED, Verdict.REJECTED, None)
    assert store.artifacts.get(TENANT, ended.artifacts[0].digest).check.verdict is Verdict.REJECTED
    assert store.models.list(TENANT, 10).items == []


def test_a_rejected_artifact_is_a_version_for_who_accepts_unsound_ones(store, new_request, success):
    store.trace_requests.add(request := new_request(accept_unsound=True))
    store.trace_requests.claim(request.id)

    store.trace_requests.finish(request.id, 1, success(request, Verdict.REJECTED))

    assert store.models.resolve(TENANT, ModelRef.parse("net")).verdict is Verdict.REJECTED


def test_a_failure_is_kept_with_its_facts_and_where_it_came(store, new_request):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    store.trace_requests.report(request.id, 1, Stage.TRACING, 0.5)

    assert store.trace_requests.finish(request.id, 1, NotTraced(failure=THEIRS))

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.stage, ended.failure) == (State.FAILED, Stage.TRACING, THEIRS)
    assert ended.ended_at >= ended.started_at
    assert store.events.after(TENANT, request.id, 0, 100)[-1].data == {"state": "failed", "verdict": None}


def test_a_process_killed_while_it_ends_requests_leaves_each_ended_or_not(database_url, blob_url, store, new_request):
    for _ in range(60):
        store.trace_requests.add(new_request())

    with subprocess.Popen([sys.executable, "-c", ENDS_ALL, database_url, blob_url], stdout=subprocess.PIPE) as ending:
        told = {ending.stdout.readline().decode().strip() for _ in range(20)}
        ending.kill()

    succeeded = [status for status in store.trace_requests.list(TENANT, 100).items if status.state is State.SUCCEEDED]
    versions = store.models.get(TENANT, "net").versions
    assert told <= {status.id for status in succeeded}
    assert {status.id: status.model.version for status in succeeded} == {v.trace_request: v.version for v in versions}
    assert all(store.artifacts.get(TENANT, version.artifacts["cpu"]) for version in versions)


# Ends every queued request, and tells which; killed somewhere on the way.
ENDS_ALL = """
import sys
from tracehouse.artifact.manifest import Artifact
from service.domain.outcome import Succeeded
from service.storage.database import Store

blob = {"digest": "sha256:" + "0" * 64, "byte_size": 0}
check = {"verdict": "verified", "comparisons": [], "findings": [], "torch": {"ran": False}}
store = Store.open(*sys.argv[1:])
for status in store.trace_requests.list("ours", 100).items:
    request = store.trace_requests.claim(status.id)
    artifact = Artifact.model_validate({
        "device": "cpu", "entrypoint": status.id, "contract": {"methods": {}}, "check": check, "archive": blob,
        "printouts": blob, "golden": blob, "freeze": False, "submodules": [], "parameters": [], "buffers": [],
        "versions": {"torch": "2", "python": "3", "tracehouse": "0"},
    })
    store.trace_requests.finish(status.id, 1, Succeeded.of(request.spec, [artifact]))
    print(status.id, flush=True)
"""


def test_a_released_request_is_queued_again_however_often(store, new_request):
    request = store.trace_requests.add(new_request())
    for attempt in range(1, 6):
        store.trace_requests.claim(request.id)
        store.trace_requests.report(request.id, attempt, Stage.CHECKING, 0.8)

        assert store.trace_requests.release(request.id, attempt)

    released = store.trace_requests.get(TENANT, request.id)
    assert released == request.model_copy(update={"attempt": 5})
    assert [queued.id for queued in store.trace_requests.recover(attempts=1)] == [request.id]


def test_a_request_fails_when_its_attempts_are_used_up_by_faults_of_ours(store, new_request):
    request = store.trace_requests.add(new_request())
    for attempt in (1, 2, 3):
        assert store.trace_requests.get(TENANT, request.id).state is State.QUEUED
        store.trace_requests.claim(request.id)

        assert store.trace_requests.retry(request.id, attempt, OURS, attempts=3)

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.attempt, ended.failure) == (State.FAILED, 3, OURS)
    assert store.trace_requests.claim(request.id) is None


def test_a_release_uses_up_no_attempt(store, new_request):
    request = store.trace_requests.add(new_request())
    for attempt in (1, 2):
        store.trace_requests.claim(request.id)
        store.trace_requests.release(request.id, attempt)
    store.trace_requests.claim(request.id)

    store.trace_requests.retry(request.id, 3, OURS, attempts=2)

    assert store.trace_requests.get(TENANT, request.id).state is State.QUEUED


def test_recovery_gives_all_that_wait_oldest_first(store, new_request):
    oldest, ended, running, newest = (store.trace_requests.add(new_request()) for _ in range(4))
    store.trace_requests.claim(running.id)
    store.trace_requests.cancel(TENANT, ended.id)

    waiting = store.trace_requests.recover(attempts=3)

    assert [status.id for status in waiting] == [oldest.id, running.id, newest.id]
    assert {status.state for status in waiting} == {State.QUEUED}
    assert states(store, running.id) == ["queued", "running", "queued"]


def test_a_request_that_loses_its_process_each_time_fails(store, new_request):
    request = store.trace_requests.add(new_request())
    for _ in range(3):
        assert [status.id for status in store.trace_requests.recover(attempts=3)] == [request.id]
        store.trace_requests.claim(request.id)

    assert store.trace_requests.recover(attempts=3) == []

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.failure.slug) == (State.FAILED, "tracer-lost")


def test_a_queued_request_can_be_cancelled(store, new_request):
    request = store.trace_requests.add(new_request())

    cancelled = store.trace_requests.cancel(TENANT, request.id)

    assert (cancelled.state, cancelled.ended_at is not None) == (State.CANCELLED, True)
    assert states(store, request.id) == ["queued", "cancelled"]


def test_a_running_request_can_be_cancelled_and_its_attempt_counts_no_more(store, new_request, success):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)

    assert store.trace_requests.cancel(TENANT, request.id).state is State.CANCELLED

    assert not store.trace_requests.finish(request.id, 1, success(request))
    assert not store.trace_requests.release(request.id, 1)
    assert not store.trace_requests.retry(request.id, 1, OURS, attempts=3)
    assert store.trace_requests.get(TENANT, request.id).state is State.CANCELLED
    assert store.models.list(TENANT, 10).items == []


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
def test_an_ended_request_stays_as_it_ended(store, new_request, success, end):
    request = store.trace_requests.add(new_request())
    store.trace_requests.claim(request.id)
    if end == "cancelled":
        store.trace_requests.cancel(TENANT, request.id)
    else:
        store.trace_requests.finish(
            request.id, 1, success(request) if end == "succeeded" else NotTraced(failure=THEIRS)
        )

    with pytest.raises(TraceRequestEnded) as raised:
        store.trace_requests.cancel(TENANT, request.id)

    assert raised.value.facts["state"] == end
    assert store.trace_requests.get(TENANT, request.id).state == end


def test_of_a_cancel_and_a_finish_at_the_same_time_one_wins(store, new_request, success, at_once):
    for _ in range(5):
        request = store.trace_requests.add(new_request())
        store.trace_requests.claim(request.id)

        cancelled, finished = at_once(
            lambda r=request: store.trace_requests.cancel(TENANT, r.id),
            lambda r=request: store.trace_requests.finish(r.id, 1, success(r)),
        )

        assert isinstance(cancelled, TraceRequestEnded) == finished
        assert store.trace_requests.get(TENANT, request.id).state == ("succeeded" if finished else "cancelled")


def test_a_key_used_again_gives_the_first_request(store, new_request):
    first, again = new_request(), new_request()
    store.trace_requests.add(first, Idempotency.of("key", first))

    assert store.trace_requests.add(again, Idempotency.of("key", again)).id == first.id
    assert [status.id for status in store.trace_requests.list(TENANT, 10).items] == [first.id]


def test_a_key_stands_for_its_request_whatever_release_it_is_sent_to(store, new_request, monkeypatch):
    first = new_request()
    store.trace_requests.add(first, Idempotency.of("key", first))

    monkeypatch.setattr(trace_request, "CHECK_VERSION", "that of the next release")
    again = new_request()

    assert again.content != first.content
    assert store.trace_requests.add(again, Idempotency.of("key", again)).id == first.id


def test_a_key_used_again_is_answered_though_the_queue_is_full(store, new_request):
    first, again = new_request(), new_request()
    store.trace_requests.add(first, Idempotency.of("key", first), queue_max=1)

    assert store.trace_requests.add(again, Idempotency.of("key", again), queue_max=1).id == first.id


@pytest.mark.parametrize("other", [{"model": "other"}, {"force": False}])
def test_a_key_used_for_something_else_is_refused(store, new_request, other):
    first, another = new_request(), new_request(**other)
    store.trace_requests.add(first, Idempotency.of("key", first))

    with pytest.raises(IdempotencyKeyReused):
        store.trace_requests.add(another, Idempotency.of("key", another))

    assert [status.id for status in store.trace_requests.list(TENANT, 10).items] == [first.id]


def test_of_submissions_with_one_key_at_the_same_time_there_is_one_request(store, new_request, at_once):
    requests = [new_request() for _ in range(6)]

    kept = at_once(*[lambda r=r: store.trace_requests.add(r, Idempotency.of("key", r)) for r in requests])

    assert {request.id for request in kept} == {status.id for status in store.trace_requests.list(TENANT, 10).items}
    assert len({request.id for request in kept}) == 1


def test_a_full_queue_takes_no_more_and_forgets_the_key(store, new_request):
    store.trace_requests.add(waiting := new_request(), queue_max=1)
    refused = new_request()

    with pytest.raises(QueueFull) as raised:
        store.trace_requests.add(refused, Idempotency.of("key", refused), queue_max=1)

    assert raised.value.facts == {"pool": "cpu", "waiting": 1, "limit": 1}
    store.trace_requests.claim(waiting.id)
    assert store.trace_requests.add(refused, Idempotency.of("key", refused), queue_max=1).id == refused.id


def test_the_same_content_is_not_traced_again_while_it_may_still_succeed(store, new_request, success):
    request = store.trace_requests.add(new_request(force=False))
    assert store.trace_requests.add(new_request(force=False)).id == request.id

    store.trace_requests.claim(request.id)
    assert store.trace_requests.add(new_request(force=False)).id == request.id

    store.trace_requests.finish(request.id, 1, success(request))
    assert store.trace_requests.add(new_request(force=False)).state is State.SUCCEEDED
    assert len(store.trace_requests.list(TENANT, 10).items) == 1


def test_the_same_content_at_once_is_one_request(store, new_request, at_once):
    requests = [new_request(force=False) for _ in range(8)]

    kept = at_once(*[lambda r=r: store.trace_requests.add(r) for r in requests])

    assert len({request.id for request in kept}) == 1


def test_the_same_content_is_traced_again_where_it_failed_or_was_cancelled(store, new_request):
    failed, cancelled = (store.trace_requests.add(new_request()) for _ in range(2))
    store.trace_requests.claim(failed.id)
    store.trace_requests.finish(failed.id, 1, NotTraced(failure=THEIRS))
    store.trace_requests.cancel(TENANT, cancelled.id)

    again = new_request(force=False)

    assert store.trace_requests.add(again).id == again.id


def test_the_newest_of_the_same_content_is_given(store, new_request, register):
    register("net")
    newest = register("net")

    assert store.trace_requests.add(new_request(force=False)).id == newest.id


def test_content_whose_version_was_deleted_is_traced_again(store, new_request, register):
    """Else a submitter of the same content could not have it back."""
    register("net")
    store.models.delete(TENANT, "net")

    again = new_request(force=False)

    assert store.trace_requests.add(again).id == again.id


def test_rejected_content_is_not_traced_again_though_it_has_no_version(store, new_request, success):
    store.trace_requests.add(request := new_request())
    store.trace_requests.claim(request.id)
    store.trace_requests.finish(request.id, 1, success(request, Verdict.REJECTED))

    assert store.trace_requests.add(new_request(force=False)).id == request.id


def test_a_key_is_taken_for_a_request_that_is_there_already(store, new_request):
    """Where the same content was submitted before, and is submitted again under a key."""
    there = store.trace_requests.add(new_request())
    again = new_request(force=False)

    assert store.trace_requests.add(again, Idempotency.of("key", again)).id == there.id

    store.trace_requests.cancel(TENANT, there.id)
    assert store.trace_requests.add(again, Idempotency.of("key", again)).id == there.id
    other = new_request("other")
    with pytest.raises(IdempotencyKeyReused):
        store.trace_requests.add(other, Idempotency.of("key", other))


def test_what_would_be_refused_is_known_before_it_is_added(store, new_request):
    store.trace_requests.add(waiting := new_request(), Idempotency.of("key", waiting), queue_max=1)

    with pytest.raises(QueueFull):
        store.trace_requests.refuse(new_request(), queue_max=1)
    with pytest.raises(IdempotencyKeyReused):
        store.trace_requests.refuse(other := new_request("other"), Idempotency.of("key", other), queue_max=9)
    store.trace_requests.refuse(waiting, Idempotency.of("key", waiting), queue_max=1)
    store.trace_requests.refuse(new_request(force=False), queue_max=1)


def test_the_list_is_newest_first_and_stable_while_others_come(store, new_request):
    requests = [store.trace_requests.add(new_request()) for _ in range(5)]

    first = store.trace_requests.list(TENANT, 2)
    store.trace_requests.add(new_request())
    second = store.trace_requests.list(TENANT, 2, first.next_cursor)
    third = store.trace_requests.list(TENANT, 2, second.next_cursor)

    listed = [status.id for page in (first, second, third) for status in page.items]
    assert listed == [request.id for request in reversed(requests)]
    assert third.next_cursor is None


def test_requests_of_the_same_moment_are_each_listed_once(store, new_request):
    request = new_request()
    for name in "cabed":
        store.trace_requests.add(request.model_copy(update={"id": name}))

    listed, cursor = [], None
    while True:
        page = store.trace_requests.list(TENANT, 1, cursor)
        listed += [status.id for status in page.items]
        if (cursor := page.next_cursor) is None:
            break

    assert listed == ["e", "d", "c", "b", "a"]


def test_a_list_that_ends_with_the_page_has_no_next_one(store, new_request):
    for _ in range(2):
        store.trace_requests.add(new_request())

    assert store.trace_requests.list(TENANT, 2).next_cursor is None
    assert store.trace_requests.list(TENANT, 1).next_cursor is not None


def test_a_list_can_be_of_one_state_or_one_model(store, new_request):
    net, other, cancelled = (store.trace_requests.add(new_request(model)) for model in ("net", "other", "net"))
    store.trace_requests.cancel(TENANT, cancelled.id)

    def listed(**only) -> list[str]:
        return [status.id for status in store.trace_requests.list(TENANT, 10, **only).items]

    assert listed(state=State.QUEUED) == [other.id, net.id]
    assert listed(model="net") == [cancelled.id, net.id]
    assert listed(state=State.CANCELLED, model="net") == [cancelled.id]
    assert listed(state=State.RUNNING) == []


@pytest.mark.parametrize("cursor", ["", "nonsense", "bm9uc2Vuc2U=", "WyJuZXQiXQ==", "ü", "e30=", "/w=="])
def test_a_cursor_that_no_list_gave_out_is_refused(store, cursor):
    with pytest.raises(InvalidCursor):
        store.trace_requests.list(TENANT, 1, cursor)


def test_the_queue_is_by_the_time_of_submission(store, new_request):
    later, earlier = new_request(), new_request()
    earlier = earlier.model_copy(update={"created_at": later.created_at - timedelta(hours=3)})
    store.trace_requests.add(later)
    store.trace_requests.add(earlier)

    assert [status.id for status in store.trace_requests.recover(attempts=3)] == [earlier.id, later.id]


@pytest.mark.parametrize("column", ["findings", "failure"])
def test_a_row_that_cannot_be_read_says_so_and_takes_no_list_with_it(
    store, database_url, new_request, column, caplog: pytest.LogCaptureFixture
):
    broken, whole = (store.trace_requests.add(new_request()) for _ in range(2))
    claimed = store.trace_requests.claim(broken.id)
    store.trace_requests.finish(claimed.id, claimed.attempt, NotTraced(failure=OURS))
    deep = '[{"kind": "k", "detail": "d", "evidence": {"deep": ' + "[" * 200 + "]" * 200 + "}}]"
    engine = create_engine(database_url)
    with engine.begin() as connection:
        query = text(f"UPDATE trace_requests SET {column} = :deep WHERE id = :id")
        connection.execute(query, {"deep": deep, "id": broken.id})
    engine.dispose()

    listed = store.trace_requests.list(TENANT, 10).items

    assert [status.id for status in listed] == [whole.id, broken.id]
    shown = store.trace_requests.status(TENANT, broken.id)
    kept = shown.findings[0].kind if column == "findings" else shown.failure.slug
    assert kept == {"findings": "findings-unreadable", "failure": "service-error"}[column]
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_a_request_for_two_devices_keeps_both_artifacts_as_one_version(store, new_request):
    store.trace_requests.add(request := new_request("net", devices=["cpu", "cuda"], accept_unsound=True))
    store.trace_requests.claim(request.id)
    finding = Finding(kind="output-differs", detail="it differs there")
    rejected = TraceCheck(verdict=Verdict.REJECTED, comparisons=[], findings=[finding], torch=TorchCheck(ran=False))
    artifacts = [make_artifact(device="cpu"), make_artifact(device="cuda", check=rejected)]

    assert store.trace_requests.finish(request.id, 1, Succeeded.of(request.spec, artifacts))

    ended = store.trace_requests.get(TENANT, request.id)
    by_device = {artifact.device: artifact.digest for artifact in artifacts}
    assert {each.device: each.digest for each in ended.artifacts} == by_device
    assert [store.artifacts.get(TENANT, each.digest) for each in ended.artifacts] == artifacts
    version = store.models.resolve(TENANT, ModelRef.parse("net"))
    assert (version.artifacts, version.verdict, ended.verdict) == (by_device, Verdict.REJECTED, Verdict.REJECTED)
    assert [finding.evidence for finding in ended.findings] == [{"device": "cuda"}]


def test_an_eager_run_keeps_its_outputs_and_is_no_version(store, new_request):
    store.trace_requests.add(request := new_request(mode="eager"))
    store.trace_requests.claim(request.id)
    outputs = BlobRef(digest="sha256:" + "e" * 64, byte_size=5_000)

    assert store.trace_requests.finish(request.id, 1, RanEagerly(outputs=outputs))

    ended = store.trace_requests.get(TENANT, request.id)
    assert (ended.state, ended.stage, ended.progress) == (State.SUCCEEDED, Stage.DONE, 1.0)
    assert (ended.outputs, ended.verdict, ended.artifacts, ended.model) == (outputs, None, [], None)
    assert [listed.outputs for listed in store.trace_requests.list(TENANT, 10).items] == [outputs]
    assert store.events.after(TENANT, request.id, 0, 100)[-1].data == {"state": "succeeded", "verdict": None}
    assert request.submitted_bytes + 5_000 < stored_bytes(store) < request.submitted_bytes + 8_000


def test_the_same_eager_run_is_not_run_twice(store, new_request):
    store.trace_requests.add(first := new_request(mode="eager", force=False))
    store.trace_requests.claim(first.id)
    store.trace_requests.finish(first.id, 1, RanEagerly(outputs=BlobRef(digest="sha256:" + "e" * 64, byte_size=1)))

    assert store.trace_requests.add(new_request(mode="eager", force=False)).id == first.id


def test_requests_that_wait_for_a_gpu_do_not_fill_the_queue_of_the_others(store, new_request):
    store.trace_requests.add(new_request(devices=["cuda"]), queue_max=1)

    store.trace_requests.add(new_request(), queue_max=1)

    with pytest.raises(QueueFull) as full:
        store.trace_requests.add(new_request(devices=["cpu", "cuda"]), queue_max=1)
    assert full.value.facts["pool"] == "gpu"
