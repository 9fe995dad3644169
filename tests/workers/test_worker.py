"""What a worker does with a request whose files cannot be reached: the attempt itself is made up, all else is real."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from service.domain.errors import FilesUnavailable
from service.domain.trace_request import State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.storage.blob_cache import CacheLimits
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, TENANT, wait_until
from tests.s3_server import Bucket
from tracehouse.spec.trace_spec import TraceSpec
from workers import worker as module
from workers.attempt_record import AttemptRecord
from workers.worker import Worker

ATTEMPTS = 2


@pytest.fixture
def store(bucket: Bucket, tmp_path: Path) -> Iterator[Store]:
    cache = CacheLimits(directory=tmp_path / "cache", max_bytes=2**20)
    store = Store.open(f"sqlite:///{tmp_path / 'tracehouse.db'}", bucket.url, cache)
    yield store
    store.close()


@pytest.fixture
def request_id(store: Store) -> str:
    source = {"files": {"net.py": "class Net: ..."}, "entrypoint": "net:Net"}
    spec = TraceSpec.model_validate({"model": "net", "source": source, "example_inputs": [1.0]})
    return store.trace_requests.add(TraceRequest.new(spec, {}, torch_version="2", tenant=TENANT)).id


@pytest.fixture
def run(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a worker whose attempt writes a file, and fails for files even if that works."""

    class UnreachingAttempt:
        def __init__(self, _: TraceRequest, record: AttemptRecord, *__: Any, **___: Any) -> None:
            self._record = record

        def run(self) -> None:
            with self._record.stage_file() as staged:
                staged.write(b"written")
                staged.commit()
            raise FilesUnavailable("the store of the files: no usable answer")

    monkeypatch.setattr(module, "Attempt", UnreachingAttempt)
    monkeypatch.setattr(module, "_FILES_POLL_S", 0.05)
    worker = Worker(store, None, NO_ENVIRONMENTS, None, ATTEMPTS)  # type: ignore[arg-type]

    def run(request_id: str, cancellation: Cancellation | None = None) -> None:
        worker.run(request_id, cancellation or Cancellation())

    return run


def test_where_files_can_be_reached_and_an_attempt_fails_all_the_same_it_fails_in_the_end(store, request_id, run):
    for _ in range(ATTEMPTS - 1):
        run(request_id)
        assert store.trace_requests.status(TENANT, request_id).state is State.QUEUED
    run(request_id)

    ended = store.trace_requests.status(TENANT, request_id)
    assert (ended.state, ended.failure.slug) == (State.FAILED, "files-unavailable")


def test_a_request_waits_until_files_can_be_reached_and_that_is_nobodys_fault(store, bucket, request_id, run):
    for _ in range(ATTEMPTS + 1):
        bucket.server.kill()
        running = Thread(target=run, args=[request_id])
        running.start()
        running.join(0.5)
        assert running.is_alive()
        assert store.trace_requests.status(TENANT, request_id).state is State.RUNNING
        bucket.server.start()
        running.join()

        assert store.trace_requests.status(TENANT, request_id).state is State.QUEUED


def test_a_stop_ends_the_waiting_at_once_and_the_request_is_queued(store, bucket, request_id, run, caplog):
    bucket.server.kill()
    cancellation = Cancellation()
    running = Thread(target=run, args=[request_id, cancellation])
    running.start()
    wait_until(lambda: "a trace request waits for the files" in caplog.messages)
    cancellation.set("stopping")
    running.join()

    assert store.trace_requests.status(TENANT, request_id).state is State.QUEUED
