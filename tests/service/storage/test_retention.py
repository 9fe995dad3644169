"""What sweeps remove, what they leave, and that nothing is lost of what is on its way meanwhile."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Event, Thread
from time import sleep, time
from typing import Any

import pytest

from service.domain.errors import ArtifactNotFound, BlobMissing, FilesInUse, TraceRequestNotFound
from service.domain.outcome import NotTraced, RanEagerly, Succeeded
from service.domain.quotas import NO_QUOTAS
from service.domain.retention import RetentionRules
from service.domain.trace_request import TraceRequest
from service.storage import retention
from service.storage.database import Store
from service.storage.file_holds import FileHolds
from tests.conftest import TENANT, keep, make_artifact, stored_bytes
from tests.service.conftest import POSTGRES_URL
from tracehouse.artifact.blob import BlobRef
from tracehouse.errors import Failure

# Whatever is not named goes, however young it is.
NOW = RetentionRules(files_s=0)
AT_ONCE = RetentionRules(requests_s=0, files_s=0)


LEAST_AGE = retention._LEAST_AGE


# Each place of files and each database, but not each with each: what removes rows knows no files, and the other way.
KINDS = [("file", "sqlite"), ("s3", "postgresql" if POSTGRES_URL else "sqlite")]


@pytest.fixture(params=KINDS, ids="-".join)
def _kinds(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture
def blob_kind(_kinds: tuple[str, str]) -> str:
    return _kinds[0]


@pytest.fixture
def database_kind(_kinds: tuple[str, str]) -> str:
    return _kinds[1]


@pytest.fixture(autouse=True)
def _no_least_age(monkeypatch: pytest.MonkeyPatch, blob_kind: str) -> None:
    """Files are old a tick of their clock after they were written, so that no test waits for minutes.

    The clock of a file system is the kernel's, and that of S3 counts seconds.
    """
    monkeypatch.setattr(retention, "_LEAST_AGE", timedelta(seconds=1.1 if blob_kind == "s3" else 0.02))


Traced = Callable[..., TraceRequest]


@pytest.fixture
def traced(store: Store, new_request) -> Traced:
    """A request with an uploaded file and an artifact whose files are stored, also as a version."""

    def traced(word: str, tenant: str = TENANT, *, is_registered: bool = False) -> TraceRequest:
        uploaded = keep(store.blobs, word.encode())
        request = new_request(word, tenant).model_copy(update={"files": {"net.py": uploaded}})
        store.trace_requests.add(request)
        store.trace_requests.claim(request.id)
        store.events.append(request.id, "log", {"text": word * 100})
        files = {name: keep(store.blobs, f"{name} of {word}".encode()) for name in ("archive", "printouts", "golden")}
        outcome = Succeeded.of(request.spec, [make_artifact(entrypoint=f"{word}:Net", **files)])
        outcome = outcome.model_copy(update={"registered": is_registered})
        assert store.trace_requests.finish(request.id, 1, outcome)
        return store.trace_requests.get(tenant, request.id)

    return traced


def files_of(store: Store) -> set[str]:
    return {file.digest for file in store.blobs.files()}


def digests_of(store: Store, request: TraceRequest) -> set[str]:
    artifact = store.artifacts.get(request.tenant, request.artifacts[0].digest)
    files = (artifact.archive, artifact.printouts, artifact.golden, *request.files.values())
    return {blob.digest for blob in files}


def wait_for_tick() -> None:
    sleep(retention._LEAST_AGE.total_seconds() + 0.1)


def test_without_rules_only_files_that_nothing_names_go(store, traced):
    kept = traced("kept")
    orphan = keep(store.blobs, b"left by a killed process")
    wait_for_tick()

    swept = store.retention.sweep(NOW)

    assert (swept.files, swept.file_bytes, swept.requests, swept.artifacts) == (1, orphan.byte_size, [], 0)
    assert files_of(store) == digests_of(store, kept)
    assert store.retention.sweep(NOW).files == 0


def test_a_file_that_nothing_names_yet_stays_while_it_is_young(store):
    young = keep(store.blobs, b"young")

    assert store.retention.sweep(RetentionRules()).files == 0
    assert files_of(store) == {young.digest}


def test_a_file_of_the_last_minutes_stays_where_a_clock_is_behind_and_the_rules_keep_none(
    store, blob_kind, tmp_path, monkeypatch
):
    if blob_kind == "s3":
        pytest.skip("nobody can set the time of an object")
    monkeypatch.setattr(retention, "_LEAST_AGE", LEAST_AGE)
    ages_min = {keep(store.blobs, b"just stored").digest: 3, keep(store.blobs, b"left").digest: 6}
    for digest, age_min in ages_min.items():
        name = digest.removeprefix("sha256:")
        written_at = time() - age_min * 60
        os.utime(tmp_path / "state" / "blobs" / "sha256" / name[:2] / name[2:], (written_at, written_at))
    young, _ = ages_min

    assert store.retention.plan(NOW).files == 1
    assert store.retention.sweep(NOW).files == 1
    assert files_of(store) == {young}


def test_an_old_request_goes_with_its_files_and_one_that_a_version_came_from_stays(store, traced):
    served, old = traced("served", is_registered=True), traced("old")
    its = digests_of(store, old)
    wait_for_tick()

    swept = store.retention.sweep(AT_ONCE)

    assert [(one.id, one.reason) for one in swept.requests] == [(old.id, "age")]
    assert (swept.artifacts, swept.files) == (1, 4)
    assert files_of(store) == digests_of(store, served)
    assert files_of(store).isdisjoint(its)
    with pytest.raises(TraceRequestNotFound):
        store.trace_requests.status(TENANT, old.id)
    with pytest.raises(ArtifactNotFound):
        store.artifacts.get(TENANT, old.artifacts[0].digest)


def test_what_was_just_ended_is_not_old(store, traced):
    ended = traced("ended")

    swept = store.retention.sweep(RetentionRules(requests_s=3600, files_s=0))

    assert swept.requests == []
    assert store.trace_requests.status(TENANT, ended.id)


def test_over_its_quota_a_tenant_loses_its_oldest_requests_and_no_other_does(store, traced):
    requests = [traced(f"net{number}") for number in range(4)]
    served = traced("served", is_registered=True)
    other = traced("other", "theirs")
    before = stored_bytes(store)
    # Room for all but the first two, of which each counts about as much.
    rules = RetentionRules(tenant_max_bytes=before - stored_bytes(store, "theirs") - 100, files_s=0)

    swept = store.retention.sweep(rules)

    assert [(one.id, one.reason) for one in swept.requests] == [(one.id, "quota") for one in requests[:2]]
    assert stored_bytes(store) <= rules.tenant_max_bytes
    assert stored_bytes(store) == before - swept.stored_bytes
    for request in (*requests[2:], served, other):
        assert digests_of(store, request) <= files_of(store)


def test_events_of_old_requests_go_but_the_last_and_count_no_more(store, traced):
    served = traced("served", is_registered=True)
    before = stored_bytes(store)

    swept = store.retention.sweep(RetentionRules(events_s=0))

    assert [event.kind for event in store.events.after(TENANT, served.id, 0, 10)] == ["end"]
    assert [*store.events.log(TENANT, served.id)] == []
    assert stored_bytes(store) == before - swept.event_bytes < before
    assert swept.events > 1
    assert store.retention.sweep(RetentionRules(events_s=0)).events == 0


def test_what_is_waiting_or_running_stays_whatever_the_rules(store, new_request):
    uploaded = keep(store.blobs, b"uploaded")
    waiting, running = (new_request().model_copy(update={"files": {"net.py": uploaded}}) for _ in range(2))
    for request in (waiting, running):
        store.trace_requests.add(request)
    store.trace_requests.claim(running.id)
    store.events.append(running.id, "log", {"text": "printed"})
    wait_for_tick()

    swept = store.retention.sweep(RetentionRules(requests_s=0, tenant_max_bytes=1, events_s=0, files_s=0))

    assert (swept.requests, swept.events, swept.files) == ([], 0, 0)
    assert [*store.events.log(TENANT, running.id)] == ["printed"]


def test_outputs_of_eager_runs_stay_as_long_as_their_request(store, new_request):
    request = store.trace_requests.add(new_request(mode="eager"))
    store.trace_requests.claim(request.id)
    outputs = keep(store.blobs, b"outputs")
    store.trace_requests.finish(request.id, 1, RanEagerly(outputs=outputs))
    wait_for_tick()

    assert store.retention.sweep(NOW).files == 0
    assert store.retention.sweep(AT_ONCE).files == 1


def test_a_plan_says_what_a_sweep_then_removes_and_changes_nothing(store, traced):
    traced("served", is_registered=True)
    traced("old")
    keep(store.blobs, b"orphan")
    wait_for_tick()
    rules = RetentionRules(requests_s=0, events_s=0, files_s=0)
    before = files_of(store), stored_bytes(store)

    planned = store.retention.plan(rules)

    assert (files_of(store), stored_bytes(store)) == before
    assert planned == store.retention.sweep(rules)
    assert (len(planned.requests), planned.artifacts, planned.files) == (1, 1, 5)
    assert planned.stored_bytes == before[1] - stored_bytes(store)
    assert planned.events > 0


def test_a_file_that_is_stored_again_while_nobody_names_it_is_young_again(store, new_request, monkeypatch):
    """An upload of bytes that an earlier one left: the sweep has seen the file, and its row comes only then."""
    uploaded = keep(store.blobs, b"the same bytes")
    wait_for_tick()
    request = new_request().model_copy(update={"files": {"net.py": uploaded}})
    find_files = store.retention._find_files

    def find_and_upload(*arguments: Any) -> Any:
        found = [*find_files(*arguments)]
        assert [file.digest for file in found] == [uploaded.digest]
        with store.allowances.open(TENANT, NO_QUOTAS) as allowance, store.blobs.stage(allowance) as staged:
            staged.write(b"the same bytes")
            staged.commit()
            store.trace_requests.add(request)
        yield from found

    monkeypatch.setattr(store.retention, "_find_files", find_and_upload)

    assert store.retention.sweep(NOW).files == 0
    assert store.blobs.holds(uploaded.digest)


def test_a_sweep_waits_for_whoever_has_stored_files_and_has_no_row_yet(store, new_request):
    """Its files are older than the sweep, and are named only after it began."""
    with store.allowances.open(TENANT, NO_QUOTAS) as allowance:
        with store.blobs.stage(allowance) as staged:
            staged.write(b"on its way")
            blob = staged.commit()
        wait_for_tick()
        swept: list[Any] = []
        sweeping = Thread(target=lambda: swept.append(store.retention.sweep(NOW)))
        sweeping.start()
        sweeping.join(0.3)
        assert sweeping.is_alive()
        store.trace_requests.add(new_request().model_copy(update={"files": {"net.py": blob}}))
    sweeping.join()

    assert swept[0].files == 0
    assert store.blobs.holds(blob.digest)


def test_where_files_are_always_being_stored_a_sweep_gives_up(store):
    holds = FileHolds(store._transactions.engine)

    with holds.write(), pytest.raises(FilesInUse), holds.remove(patience_s=0.05):
        pytest.fail("two had the files")
    with holds.remove(), pytest.raises(FilesInUse), holds.remove(patience_s=0.05):
        pytest.fail("two had the files")
    with holds.write(), holds.write():
        pass


def test_a_sweep_during_which_others_store_files_does_all_else_and_says_so(store, traced, tmp_path, monkeypatch):
    old = traced("old")
    files = files_of(store)
    killed = store.blobs._staging.directory / "left by a killed process"
    killed.write_bytes(b"half a file")
    holds = store.retention._holds
    monkeypatch.setattr(holds, "remove", partial(holds.remove, patience_s=0.05))
    wait_for_tick()

    with holds.write():
        swept = store.retention.sweep(AT_ONCE)

    assert (swept.are_files_in_use, swept.files) == (True, 0)
    assert [one.id for one in swept.requests] == [old.id]
    assert files_of(store) == files
    assert not killed.exists()
    later = store.retention.sweep(AT_ONCE)
    assert (later.are_files_in_use, later.files) == (False, len(files))


HOLDS = """
import sys
from service.storage.file_holds import FileHolds
from service.storage.transactions import connect

with FileHolds(connect(sys.argv[1])).write():
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_the_hold_of_a_killed_process_ends_with_it(store, database_url):
    holds = FileHolds(store._transactions.engine)
    program = [sys.executable, "-c", HOLDS, database_url]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FilesInUse), holds.remove(patience_s=0.05):
            pytest.fail("the other process holds the files")
        other.kill()

    with holds.remove():
        pass


def test_sweeps_beside_uploads_and_attempts_lose_nothing(store, new_request):
    """Requests of the same few contents come, end and are deleted, while others sweep: each row has its bytes."""
    stopping = Event()
    failures: list[str] = []

    def trace(number: int) -> None:
        for turn in range(12):
            word = f"content {turn % 3}"
            request = new_request(f"net{number}")
            with store.allowances.open(TENANT, NO_QUOTAS) as allowance, store.blobs.stage(allowance) as staged:
                staged.write(word.encode())
                request = request.model_copy(update={"files": {"net.py": staged.commit()}})
                store.trace_requests.add(request)
            if not store.blobs.holds(request.files["net.py"].digest):
                failures.append(f"upload {number}.{turn}")
            store.trace_requests.claim(request.id)
            with store.allowances.open(TENANT, NO_QUOTAS) as allowance:
                artifact = make_artifact(archive=_commit(store, allowance, word + " traced"))
                outcome = Succeeded.of(request.spec, [artifact]).model_copy(update={"registered": False})
                assert store.trace_requests.finish(request.id, 1, outcome)
            if not store.blobs.holds(artifact.archive.digest):
                failures.append(f"artifact {number}.{turn}")
            store.trace_requests.delete(TENANT, request.id)

    def sweep() -> None:
        while not stopping.is_set():
            store.retention.sweep(NOW)

    tracing = [Thread(target=partial(trace, number)) for number in range(3)]
    sweeping = [Thread(target=sweep) for _ in range(2)]
    for thread in (*tracing, *sweeping):
        thread.start()
    for thread in tracing:
        thread.join()
    stopping.set()
    for thread in sweeping:
        thread.join()

    assert failures == []
    wait_for_tick()
    store.retention.sweep(NOW)
    assert files_of(store) == set()
    assert stored_bytes(store) == 0


def _commit(store: Store, allowance: Any, word: str) -> BlobRef:
    with store.blobs.stage(allowance) as staged:
        staged.write(word.encode())
        return staged.commit()


KILLED = """
import os, sys
from datetime import timedelta
from pathlib import Path
from service.domain.retention import RetentionRules
from service.storage import retention
from service.storage.blob_cache import CacheLimits
from service.storage.database import Store

retention._LEAST_AGE = timedelta(seconds=float(sys.argv[4]))
steps = int(sys.argv[3])
store = Store.open(sys.argv[1], sys.argv[2], CacheLimits(Path(sys.argv[5]), 10**9))
for owner, name in ((store.retention, "_remove_request"), (store.blobs, "remove")):
    def dying(*arguments, before=getattr(owner, name)):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), 9)
        return before(*arguments)
    setattr(owner, name, dying)
store.retention.sweep(RetentionRules(requests_s=0, files_s=0))
"""


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
def test_a_sweep_that_is_killed_breaks_nothing_and_the_next_one_goes_on(
    store, traced, database_url, blob_url, steps, tmp_path
):
    served = traced("served", is_registered=True)
    for word in ("first", "second"):
        traced(word)
    wait_for_tick()
    given = [database_url, blob_url, str(steps), str(retention._LEAST_AGE.total_seconds()), str(tmp_path / "cache")]
    ended = subprocess.run([sys.executable, "-c", KILLED, *given], check=False)

    assert ended.returncode == -9
    left = store.trace_requests.list(TENANT, 10).items
    assert len(left) == 3 - min(steps, 2)
    for status in left:
        assert digests_of(store, store.trace_requests.get(TENANT, status.id)) <= files_of(store)
    store.retention.sweep(AT_ONCE)
    assert files_of(store) == digests_of(store, served)


def test_a_failed_request_leaves_nothing_when_it_is_old(store, new_request):
    uploaded = keep(store.blobs, b"uploaded")
    request = new_request().model_copy(update={"files": {"net.py": uploaded}})
    store.trace_requests.add(request)
    store.trace_requests.claim(request.id)
    store.trace_requests.finish(request.id, 1, NotTraced(failure=Failure(slug="model-raised", detail="boom")))
    wait_for_tick()

    store.retention.sweep(AT_ONCE)

    assert stored_bytes(store) == 0
    with pytest.raises(BlobMissing):
        store.blobs.open(uploaded.digest)
