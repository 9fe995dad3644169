"""Several engines on one PostgreSQL, as processes on several hosts have them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from sqlalchemy import text

import migrations
from migrations.check import empty_schema
from service.domain.errors import StorageUnavailable
from service.domain.outcome import NotTraced
from service.domain.trace_request import State, TraceRequest
from service.engine.distributed import DistributedEngine, Pace
from service.sandbox.cancellation import Cancellation
from service.storage.database import Store
from service.storage.jobs import channel
from service.storage.transactions import Transactions, connect
from service.storage.turns import Pool
from tests.conftest import PATIENCE_S, TENANT, wait_until
from tests.service.conftest import POSTGRES_URL
from tests.service.engine.test_engine import FAILURE, SteppedWorker, Worker

pytestmark = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")

NewRequest = Callable[..., TraceRequest]
Start = Callable[..., DistributedEngine]
# Nothing is found by a look at the tables, but only through notices.
NEVER_LOOKS = Pace(look_s=3600)
OFTEN = Pace(look_s=0.02)
IMPATIENT = Pace(look_s=0.02, silent_s=2)


@pytest.fixture
def database_url() -> Iterator[str]:
    assert POSTGRES_URL is not None
    with empty_schema(POSTGRES_URL) as url:
        yield f"{url}&application_name={url[-32:]}"


@pytest.fixture
def start(store: Store) -> Iterator[Start]:
    engines: list[DistributedEngine] = []

    def start(worker: Worker, slots: int = 1, attempts: int = 3, pace: Pace = NEVER_LOOKS) -> DistributedEngine:
        engine = DistributedEngine(
            store, worker.run, {"cpu": slots, "gpu": 0}, queue_max=100, attempts=attempts, pause_s=0.01, pace=pace
        )
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.stop(PATIENCE_S)


@pytest.fixture
def lose(store: Store) -> Callable[[TraceRequest], int]:
    """Claim a request as a worker that then dies, and return the number of its attempt."""

    def lose(request: TraceRequest) -> int:
        store.worker_turns.note_alive("dead", {"cpu": 1})
        with store.worker_turns.open_pool("cpu", "dead") as pool:
            pool.begin(request.tenant, request.id)
        claimed = store.trace_requests.claim(request.id)
        assert claimed is not None
        return claimed.attempt

    return lose


def state_of(store: Store, request: TraceRequest) -> State:
    return store.trace_requests.status_of_any_tenant(request.id).state


def test_a_process_without_slots_has_its_requests_run_by_others(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    nobody, worker = Worker(store), Worker(store)
    api = start(nobody, slots=0)
    start(worker)

    requests = [new_request() for _ in range(5)]
    for request in requests:
        api.submit(request)

    wait_until(lambda: all(state_of(store, request) is State.FAILED for request in requests))
    assert (len(worker.begun), nobody.begun) == (5, [])


def test_requests_are_run_once_each_however_many_workers_there_are(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    workers = [Worker(store) for _ in range(4)]
    engines = [start(worker, slots=2) for worker in workers]

    requests = [engine.submit(new_request()) for engine in engines for _ in range(10)]

    wait_until(lambda: all(state_of(store, request) is State.FAILED for request in requests))
    begun = [request_id for worker in workers for request_id in worker.begun]
    assert sorted(begun) == sorted(request.id for request in requests)


def test_a_tenant_with_the_slots_of_all_workers_gives_one_to_another(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    workers = [SteppedWorker(store) for _ in range(2)]
    api = start(Worker(store), slots=0, pace=OFTEN)
    for worker in workers:
        start(worker)
    aa = [new_request("aa") for _ in range(3)]
    for request in aa:
        api.submit(request)
    wait_until(lambda: sum(len(worker.begun) for worker in workers) == 2)

    bb = api.submit(new_request("bb"))

    wait_until(lambda: state_of(store, bb) is State.RUNNING)
    assert [state_of(store, one) for one in aa] == [State.RUNNING, State.QUEUED, State.QUEUED]
    wait_until(lambda: [api.position(one) for one in aa] == [None, 1, 2])
    for worker in workers:
        for gate in (worker.gates[one.id] for one in (*aa, bb)):
            gate.set()
    wait_until(lambda: all(state_of(store, one) is State.FAILED for one in (*aa, bb)))


def test_a_turn_reads_the_oldest_of_each_tenant_and_not_all_that_waits(store: Store, new_request: NewRequest) -> None:
    waiting = {tenant: [new_request(tenant) for _ in range(5)] for tenant in ("aa", "bb", "cc")}
    for requests in waiting.values():
        for request in reversed(requests):
            store.trace_requests.add(request)
    store.trace_requests.cancel("cc", waiting["cc"][0].id)
    store.worker_turns.note_alive("worker", {"cpu": 1})

    with store.worker_turns.open_pool("cpu", "worker") as pool:
        heads = [(one.tenant, one.request_id) for one in pool.state.waiting]
        pool.begin("bb", waiting["bb"][0].id)
    assert heads == [("aa", waiting["aa"][0].id), ("bb", waiting["bb"][0].id), ("cc", waiting["cc"][1].id)]
    with store.worker_turns.open_pool("cpu", "worker") as pool:
        assert pool.state.waiting[1].request_id == waiting["bb"][1].id, "its turn has begun, though it is not claimed"
    assert len(store.worker_turns.read_pool("cpu").waiting) == 13


def test_a_slot_of_all_workers_is_kept_for_quick_ones(store: Store, new_request: NewRequest) -> None:
    workers = [SteppedWorker(store) for _ in range(2)]
    engines = [
        DistributedEngine(store, one.run, {"cpu": 1}, queue_max=9, attempts=3, pause_s=0.01, pace=OFTEN, quick_slots=1)
        for one in workers
    ]
    for engine in engines:
        engine.start()
    wait_until(lambda: all(engine.slots["cpu"] == 2 for engine in engines))
    first, second = (engines[0].submit(new_request()) for _ in range(2))
    wait_until(lambda: state_of(store, first) is State.RUNNING)

    quick = engines[0].submit(new_request(check={"budget": "quick"}))

    wait_until(lambda: state_of(store, quick) is State.RUNNING)
    assert [state_of(store, one) for one in (first, second)] == [State.RUNNING, State.QUEUED]
    for engine in engines:
        engine.stop(PATIENCE_S)


def test_a_process_that_tells_no_positions_runs_what_waits(store: Store, new_request: NewRequest) -> None:
    worker = Worker(store)
    engine = DistributedEngine(
        store, worker.run, {"cpu": 1}, queue_max=100, attempts=3, pause_s=0.01, tells_positions=False
    )
    requests = [store.trace_requests.add(new_request(tenant)) for tenant in ("aa", "aa", "bb")]
    engine.start()

    wait_until(lambda: len(worker.begun) == 3)
    assert worker.begun == [requests[0].id, requests[2].id, requests[1].id]
    assert engine.position(requests[0]) is None
    engine.stop(PATIENCE_S)


def test_a_request_is_cancelled_through_a_process_that_does_not_run_it(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    worker = Worker(store, gate=Event())
    api = start(Worker(store), slots=0)
    start(worker)
    request = api.submit(new_request())
    worker.wait_for_start()

    assert api.cancel(TENANT, request.id).state is State.CANCELLED

    wait_until(lambda: worker.reasons == ["cancelled"])


def test_what_another_service_stops_has_nobody_read_all_that_waits(
    store: Store, start: Start, new_request: NewRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services on a database hear each other's jobs, whatever schemas they use."""
    worker = SteppedWorker(store)
    engine = start(worker)
    running = engine.submit(new_request())
    worker.wait_for_start()
    read_pool, seen = store.worker_turns.read_pool, Event()
    looks: list[str] = []
    own = store.worker_turns.own
    monkeypatch.setattr(store.worker_turns, "read_pool", lambda pool: [looks.append(pool), read_pool(pool)][1])
    monkeypatch.setattr(store.worker_turns, "own", lambda worker: [own(worker), seen.set()][0])

    with store._transactions.write() as connection:
        said = {"channel": channel("cpu"), "said": '{"type": "abort_job_requested", "job_id": 0}'}
        connection.execute(text("SELECT pg_notify(:channel, :said)"), said)

    assert seen.wait(PATIENCE_S)
    waits = engine.submit(new_request())
    assert worker.end(running) == waits.id
    assert looks == []
    worker.gates[waits.id].set()


def test_changes_are_told_to_a_process_that_does_not_make_them(
    store: Store, start: Start, new_request: NewRequest, database_url: str
) -> None:
    other = Store(Transactions(connect(database_url)), store.blobs)
    request, changed = store.trace_requests.add(new_request()), Event()

    with store.changes.subscribe(request.id, changed.set):
        start(Worker(store), slots=0)
        assert changed.wait(PATIENCE_S)  # it listens now: there may have been changes before
        changed.clear()

        other.trace_requests.cancel(TENANT, request.id)

        assert changed.wait(PATIENCE_S)
    other.close()


def test_the_slots_of_all_workers_are_known(store: Store, start: Start) -> None:
    api = start(Worker(store), slots=0, pace=OFTEN)
    workers = [start(Worker(store), slots=slots) for slots in (2, 3)]

    wait_until(lambda: api.slots == {"cpu": 5, "gpu": 0})
    workers[0].stop()
    wait_until(lambda: api.slots["cpu"] < 5)
    assert api.slots == {"cpu": 3, "gpu": 0}


def test_nothing_gives_way_to_what_only_a_newer_worker_can_run(
    store: Store, start: Start, new_request: NewRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = SteppedWorker(store)
    old = start(worker, slots=2)
    running = [old.submit(new_request()) for _ in range(2)]
    for _ in running:
        worker.wait_for_start()
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        api = start(Worker(store), slots=0)
        api.submit(new_request(tenant="other"))
    assert worker.reasons == []

    asked = old.submit(new_request(tenant="another"))  # for which one does

    wait_until(lambda: worker.reasons == ["giving way"])
    assert worker.wait_for_start() == asked.id
    for request in (*running, asked):
        worker.gates[request.id].set()


def test_a_worker_starts_beside_what_nobody_asked_for_and_it_cannot_read(
    store: Store, start: Start, new_request: NewRequest, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        idle = store.trace_requests.add(new_request().model_copy(update={"is_idle": True}))
    administrator = Transactions(connect(database_url))
    with administrator.write() as connection:
        connection.execute(text("UPDATE trace_requests SET environment = '{}'"))
    administrator.close()

    worker = Worker(store)
    asked = start(worker).submit(new_request())

    wait_until(lambda: worker.begun == [asked.id])
    assert [event.kind for event in store.events.after(TENANT, idle.id, 0, 10)] == ["stage"]


def test_a_worker_takes_nothing_from_a_database_that_a_newer_release_has_changed(
    store: Store, start: Start, new_request: NewRequest, database_url: str
) -> None:
    worker = Worker(store)
    api = start(Worker(store), slots=0)
    administrator = Transactions(connect(database_url))
    with administrator.write() as connection:
        connection.execute(text("UPDATE oldest_release SET revision = '9999'"))
    start(worker)
    request = store.trace_requests.add(new_request())
    with pytest.raises(StorageUnavailable, match="a newer release has changed the database"):
        store.ping()
    assert (state_of(store, request), worker.begun) == (State.QUEUED, [])

    with administrator.write() as connection:
        connection.execute(text("UPDATE oldest_release SET revision = '0021'"))
    administrator.close()

    assert api.cancel(TENANT, request.id).state is State.CANCELLED


def test_what_a_dead_worker_ran_is_run_again_and_its_result_is_thrown_away(
    store: Store, start: Start, new_request: NewRequest, lose: Callable[[TraceRequest], int]
) -> None:
    request = new_request()
    store.trace_requests.add(request)
    attempt = lose(request)
    worker = SteppedWorker(store)

    start(worker, pace=IMPATIENT)

    assert worker.wait_for_start() == request.id
    assert not store.trace_requests.finish(request.id, attempt, NotTraced(failure=FAILURE))
    assert store.trace_requests.status(TENANT, request.id).attempt == attempt + 1
    worker.gates[request.id].set()
    wait_until(lambda: state_of(store, request) is State.FAILED)


def test_a_worker_that_is_there_keeps_its_requests(
    store: Store, start: Start, new_request: NewRequest, lose: Callable[[TraceRequest], int]
) -> None:
    dies, worker = new_request(), SteppedWorker(store)
    store.trace_requests.add(dies)
    lose(dies)
    lives = start(worker, pace=IMPATIENT)
    request = lives.submit(new_request())
    assert worker.wait_for_start() == request.id

    start(Worker(store), slots=0, pace=IMPATIENT)
    wait_until(lambda: state_of(store, dies) is State.QUEUED)

    assert store.trace_requests.status(TENANT, request.id).attempt == 1
    assert worker.end(request) == dies.id
    worker.gates[dies.id].set()


def test_what_kills_its_worker_each_time_ends_failed(
    store: Store, start: Start, new_request: NewRequest, lose: Callable[[TraceRequest], int]
) -> None:
    poison = new_request()
    store.trace_requests.add(poison)
    start(Worker(store), slots=0, pace=IMPATIENT)

    for attempt in (1, 2, 3):
        assert lose(poison) == attempt
        wait_until(lambda: state_of(store, poison) is not State.RUNNING)

    status = store.trace_requests.status(TENANT, poison.id)
    assert status.state is State.FAILED
    assert status.failure is not None
    assert status.failure.slug == "tracer-lost"


def test_a_worker_that_was_taken_for_dead_stops_what_another_one_runs(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    worker, other = Worker(store, gate=Event()), SteppedWorker(store)
    suspended = start(worker)
    request = suspended.submit(new_request())
    worker.wait_for_start()
    start(other, pace=IMPATIENT)
    assert other.wait_for_start() == request.id

    suspended._look_now.set()  # as it does when it goes on

    wait_until(lambda: worker.reasons == ["stopping"])
    assert state_of(store, request) is State.RUNNING
    other.gates[request.id].set()
    wait_until(lambda: state_of(store, request) is State.FAILED)


def test_a_worker_that_was_taken_for_dead_begins_anew_only_when_it_has_stopped(
    store: Store, start: Start, new_request: NewRequest
) -> None:
    """It has another slot, and nobody else has one: as where the one host with workers was suspended."""
    worker = _SlowToStop(store)
    suspended = start(worker, slots=2, attempts=2)
    request = suspended.submit(new_request())
    assert worker.wait_for_start() == request.id

    store.worker_turns.leave(suspended.id)
    store.worker_turns.reap(2, silent_s=None)
    suspended._look_now.set()  # as it does when it goes on

    wait_until(lambda: worker.reasons == ["stopping"] or len(worker.begun) > 1)
    assert worker.begun == [request.id]
    worker.gates[request.id].clear()
    worker.is_stopped.set()
    wait_until(lambda: len(worker.begun) == 2)
    worker.gates[request.id].set()
    wait_until(lambda: state_of(store, request).is_final)
    assert store.trace_requests.status(TENANT, request.id).failure == FAILURE  # the end that it gives to everything
    wait_until(lambda: not store.worker_turns.read_pool("cpu").turns)


class _SlowToStop(SteppedWorker):
    """Its processes take a while to end."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.is_stopped = Event()

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        is_first = not self.begun
        super().run(request_id, cancellation)
        if is_first:
            assert self.is_stopped.wait(PATIENCE_S)


def test_workers_go_on_when_the_database_is_there_again(
    store: Store, start: Start, new_request: NewRequest, database_url: str
) -> None:
    worker = SteppedWorker(store)
    api = start(Worker(store), slots=0, pace=OFTEN)
    start(worker, pace=OFTEN)
    running = api.submit(new_request())
    worker.wait_for_start()

    _cut_all_connections(database_url)
    waits = new_request()
    wait_until(lambda: _is_submitted(api, waits))

    assert worker.end(running) == waits.id
    worker.gates[waits.id].set()
    wait_until(lambda: state_of(store, waits) is State.FAILED)
    assert [store.trace_requests.status(TENANT, one.id).attempt for one in (running, waits)] == [1, 1]


def test_what_runs_when_the_database_goes_away_is_begun_anew_and_that_is_no_fault(
    store: Store, start: Start, new_request: NewRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away, end = Event(), store.worker_turns.end

    def end_if_there(*arguments: Any, **options: Any) -> None:
        if is_away.is_set():
            is_away.clear()
            raise StorageUnavailable("the database does not answer")
        end(*arguments, **options)

    class LosesTheDatabase(Worker):
        def run(self, request_id: str, cancellation: Cancellation) -> None:
            if not store.trace_requests.status_of_any_tenant(request_id).attempt:
                store.trace_requests.claim(request_id)
                is_away.set()
                raise StorageUnavailable("the database does not answer")
            super().run(request_id, cancellation)

    monkeypatch.setattr(store.worker_turns, "end", end_if_there)
    engine = start(LosesTheDatabase(store), attempts=1)

    request = engine.submit(new_request())

    wait_until(lambda: state_of(store, request) is State.FAILED)
    status = store.trace_requests.status(TENANT, request.id)
    assert (status.attempt, status.failure) == (2, FAILURE)  # the end that this worker gives to everything


def test_what_loses_its_connection_is_begun_anew_and_that_is_no_fault(
    store: Store, start: Start, new_request: NewRequest, database_url: str
) -> None:
    """As where the database was restarted, and is back before anybody asks it again."""

    class LosesItsConnection(Worker):
        def run(self, request_id: str, cancellation: Cancellation) -> None:
            if not store.trace_requests.status_of_any_tenant(request_id).attempt:
                store.trace_requests.claim(request_id)
                with store._transactions.read() as connection:
                    _cut_all_connections(database_url)
                    connection.execute(text("SELECT 1"))
            super().run(request_id, cancellation)

    engine = start(LosesItsConnection(store), attempts=1)

    request = engine.submit(new_request())

    wait_until(lambda: _has_failed(store, request))
    status = store.trace_requests.status(TENANT, request.id)
    assert (status.attempt, status.failure) == (2, FAILURE)  # the end that this worker gives to everything


def test_a_turn_that_began_as_the_connection_was_lost_is_not_left_behind(
    store: Store, start: Start, new_request: NewRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database had it on disk, and could not say so any more."""
    open_pool, lost = store.worker_turns.open_pool, Event()

    @contextmanager
    def open_and_lose(pool: str, worker: str, **options: Any) -> Iterator[Pool]:
        with open_pool(pool, worker, **options) as opened:
            yield opened
        if store.worker_turns.own(worker) and not lost.is_set():
            lost.set()
            raise StorageUnavailable("the database does not answer")

    monkeypatch.setattr(store.worker_turns, "open_pool", open_and_lose)
    engine = start(Worker(store), attempts=1, pace=OFTEN)

    request = engine.submit(new_request())

    wait_until(lambda: state_of(store, request) is State.FAILED)
    status = store.trace_requests.status(TENANT, request.id)
    assert (status.attempt, status.failure) == (1, FAILURE)  # the end that this worker gives to everything
    assert lost.is_set()


def _has_failed(store: Store, request: TraceRequest) -> bool:
    try:
        return state_of(store, request) is State.FAILED
    except StorageUnavailable:  # this connection was cut too
        return False


def _is_submitted(api: DistributedEngine, request: TraceRequest) -> bool:
    try:
        return api.submit(request).id == request.id
    except StorageUnavailable:  # a caller gets this as a 503
        return False


def _cut_all_connections(database_url: str) -> None:
    """Cut those of the service, as a database that starts anew does."""
    assert POSTGRES_URL is not None
    transactions = Transactions(connect(POSTGRES_URL))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name"
    with transactions.write() as connection:
        ends = connection.execute(text(cut), {"name": database_url[-32:]}).scalars().all()
    transactions.close()
    assert ends


def test_slots_take_no_turns_while_the_database_does_not_hear_of_them(store: Store, start: Start) -> None:
    heard, silent = start(Worker(store), pace=OFTEN), start(Worker(store), pace=Pace(look_s=3600, silent_s=0))

    assert (heard.takes_turns, silent.takes_turns) == (True, False)
    heard.stop(PATIENCE_S)
    assert not heard.takes_turns, "its slots have ended"
