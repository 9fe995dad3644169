"""What holds for any engine, at the seam that the API sees."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier, Event, Semaphore

import pytest
from sqlalchemy import text

import migrations
from service.domain.errors import (
    QueueFull,
    QueueQuotaExceeded,
    ShuttingDown,
    StorageQuotaExceeded,
    TraceRequestEnded,
    TraceRequestNotFound,
)
from service.domain.idempotency import Idempotency
from service.domain.outcome import NotTraced
from service.domain.quotas import Quotas
from service.domain.trace_request import State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.storage.transactions import Transactions, connect
from tests.conftest import PATIENCE_S, TENANT, wait_until
from tracehouse.errors import Failure

FAILURE = Failure(slug="model-raised", detail="boom")


class Worker:
    """Ends each request as failed. It waits for `gate` where there is one, unless it is cancelled or stopped."""

    def __init__(self, store, gate: Event | None = None) -> None:
        self.requests = store.trace_requests
        self.gate = gate
        self.begun: list[str] = []
        self.reasons: list[str | None] = []
        self.started = Semaphore(0)

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        claimed = self.requests.claim(request_id)
        if claimed is None:
            return
        gate = self.gate_of(request_id)
        self.begun.append(request_id)
        self.started.release()
        if gate is not None:
            with cancellation.calls(gate.set):
                assert gate.wait(PATIENCE_S)
        self.reasons.append(cancellation.reason)
        if cancellation.reason in ("stopping", "giving way"):
            self.requests.release(request_id, claimed.attempt)
        else:
            self.requests.finish(request_id, claimed.attempt, NotTraced(failure=FAILURE))

    def gate_of(self, _: str) -> Event | None:
        return self.gate

    def wait_for_start(self) -> str:
        assert self.started.acquire(timeout=PATIENCE_S)
        return self.begun[-1]


class SteppedWorker(Worker):
    """Ends each request when it is told to."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.gates: defaultdict[str, Event] = defaultdict(Event)

    def gate_of(self, request_id: str) -> Event:
        return self.gates[request_id]

    def end(self, request: TraceRequest) -> str:
        """The request that begins in its place."""
        self.gates[request.id].set()
        return self.wait_for_start()


@pytest.fixture
def state_of(store):
    return lambda request: store.trace_requests.status(TENANT, request.id).state


@pytest.fixture
def ended(state_of):
    return lambda *requests: all(state_of(request).is_final for request in requests)


def test_what_is_submitted_is_run(store, new_engine, new_request, ended):
    worker = Worker(store)
    engine = new_engine(worker.run)
    engine.start()

    requests = [engine.submit(new_request()) for _ in range(10)]

    wait_until(lambda: ended(*requests))
    assert sorted(worker.begun) == sorted(request.id for request in requests)


def test_the_oldest_runs_first(store, new_engine, new_request, ended):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1)
    engine.start()
    requests = [new_request() for _ in range(5)]
    engine.submit(requests[0])
    worker.wait_for_start()
    for request in (requests[3], requests[1], requests[4], requests[2]):
        engine.submit(request)

    worker.gate.set()

    wait_until(lambda: ended(*requests))
    assert worker.begun == [request.id for request in requests]


def test_a_tenant_that_queues_many_is_not_before_one_that_queues_one(store, new_engine, new_request):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(5)]
    worker.wait_for_start()
    bb = engine.submit(new_request("bb"))

    worker.gate.set()

    wait_until(lambda: len(worker.reasons) == 6)
    assert worker.begun == [request.id for request in (aa[0], bb, *aa[1:])]


def test_a_free_slot_is_for_the_tenant_that_runs_the_fewest(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=3)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(2)]
    bb = [engine.submit(new_request("bb"))]
    for _ in range(3):
        worker.wait_for_start()
    aa += [engine.submit(new_request("aa")) for _ in range(2)]
    bb += [engine.submit(new_request("bb")) for _ in range(2)]

    assert worker.end(bb[0]) == bb[1].id
    assert worker.end(bb[1]) == bb[2].id
    assert worker.end(aa[0]) == aa[2].id
    assert worker.end(bb[2]) == aa[3].id


def test_a_tenant_with_every_slot_gives_the_youngest_to_one_that_runs_nothing(store, new_engine, new_request):
    """And gets it back, for the same request, as soon as the other has no need of it."""
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=2)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(3)]
    assert {worker.wait_for_start(), worker.wait_for_start()} <= {aa[0].id, aa[1].id}

    bb = engine.submit(new_request("bb"))

    assert worker.wait_for_start() == bb.id
    assert worker.reasons == ["giving way"]
    oldest, youngest = (store.trace_requests.status("aa", one.id) for one in aa[:2])
    assert (oldest.state, oldest.attempt) == (State.RUNNING, 1)
    assert (youngest.state, youngest.attempt, youngest.started_at) == (State.QUEUED, 1, None)
    worker.gates[youngest.id] = Event()
    assert worker.end(bb) == youngest.id
    assert store.trace_requests.status("aa", youngest.id).attempt == 2


def test_what_gives_way_again_and_again_is_no_failure(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=2, attempts=1)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(2)]
    worker.wait_for_start()
    worker.wait_for_start()

    for _ in range(3):
        bb = engine.submit(new_request("bb"))
        assert worker.wait_for_start() == bb.id
        worker.gates[aa[1].id] = Event()
        assert worker.end(bb) == aa[1].id

    assert store.trace_requests.status("aa", aa[1].id).attempt == 4
    worker.gates[aa[1].id].set()
    wait_until(lambda: store.trace_requests.status("aa", aa[1].id).failure == FAILURE)


def test_what_never_ends_keeps_nothing_waiting_for_ever_that_comes_later(store, new_engine, new_request, state_of):
    """Of one tenant: the one that came first goes on, and the other begins anew when nothing else waits."""
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=2, limits_s={"quick": 0.05})
    engine.start()
    first, second = (engine.submit(new_request()) for _ in range(2))
    for _ in range(2):
        worker.wait_for_start()

    later = [engine.submit(new_request()) for _ in range(2)]

    assert worker.wait_for_start() == later[0].id
    assert worker.reasons[0] == "giving way"
    assert worker.end(later[0]) == later[1].id
    assert (state_of(first), state_of(second)) == (State.RUNNING, State.QUEUED)
    assert worker.end(later[1]) == second.id
    attempts = [store.trace_requests.status(TENANT, one.id).attempt for one in (first, second)]
    assert attempts == [1, 2]
    for request in (first, second):
        worker.gates[request.id].set()
    wait_until(lambda: all(state_of(request).is_final for request in (first, second)))


def test_a_position_is_told_while_a_request_waits_for_its_turn(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=1)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(3)]
    worker.wait_for_start()
    bb = engine.submit(new_request("bb"))

    assert [engine.position(one) for one in (*aa, bb)] == [None, 2, 3, 1]
    engine.cancel("aa", aa[1].id)
    assert [engine.position(one) for one in (*aa, bb)] == [None, None, 2, 1]
    assert worker.end(aa[0]) == bb.id
    assert [engine.position(one) for one in (*aa, bb)] == [None, None, 1, None]


def test_a_start_is_expected_once_three_have_ended(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=1)
    engine.start()
    before = [engine.submit(new_request()) for _ in range(3)]
    worker.wait_for_start()
    assert [engine.expected_start(one) for one in before] == [None] * 3, "none has ended"
    for one in before:
        worker.gates[one.id].set()
    wait_until(lambda: all(store.trace_requests.status(TENANT, one.id).failure == FAILURE for one in before))
    engine.stop()

    engine = new_engine(worker.run, slots=1)
    engine.start()
    running, *waiting = [engine.submit(new_request()) for _ in range(3)]
    wait_until(lambda: store.trace_requests.status(TENANT, running.id).state is State.RUNNING)
    wait_until(lambda: engine.expected_start(running) is None)

    first, second = (engine.expected_start(one) for one in waiting)
    assert datetime.now(UTC) - timedelta(seconds=2) < first <= second

    engine.cancel(TENANT, waiting[0].id)
    assert engine.expected_start(waiting[0]) is None
    worker.gates[running.id].set()


def test_what_no_worker_takes_has_no_position(new_engine, new_request, store):
    engine = new_engine(Worker(store).run)
    engine.start()

    request = engine.submit(new_request(**GPU))
    assert (engine.position(request), engine.expected_start(request)) == (None, None)


def test_a_tenant_that_queues_again_does_not_overtake_one_that_waits(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=1)
    engine.start()
    aa, bb, cc = (engine.submit(new_request(tenant)) for tenant in ("aa", "bb", "cc"))
    worker.wait_for_start()

    assert worker.end(aa) == bb.id
    bb_again, aa_again = engine.submit(new_request("bb")), engine.submit(new_request("aa"))
    assert worker.end(bb) == cc.id
    assert worker.end(cc) == aa_again.id
    assert worker.end(aa_again) == bb_again.id


def test_a_request_that_is_cancelled_while_it_waits_costs_its_tenant_no_turn(store, new_engine, new_request):
    worker = SteppedWorker(store)
    engine = new_engine(worker.run, slots=1)
    engine.start()
    aa = [engine.submit(new_request("aa")) for _ in range(2)]
    worker.wait_for_start()
    bb = [engine.submit(new_request("bb")) for _ in range(2)]

    engine.cancel("bb", bb[0].id)

    assert worker.end(aa[0]) == bb[1].id


def test_tenants_take_turns_with_what_an_earlier_process_left(store, new_engine, new_request):
    aa = [store.trace_requests.add(new_request("aa")) for _ in range(3)]
    bb = store.trace_requests.add(new_request("bb"))
    worker = SteppedWorker(store)

    new_engine(worker.run, slots=1).start()

    assert worker.wait_for_start() == aa[0].id
    assert worker.end(aa[0]) == bb.id
    assert worker.end(bb) == aa[1].id


def test_no_more_run_at_a_time_than_there_are_slots(store, new_engine, new_request, ended):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=2)
    engine.start()

    requests = [engine.submit(new_request()) for _ in range(4)]

    worker.wait_for_start()
    worker.wait_for_start()
    assert not worker.started.acquire(timeout=0.05)
    worker.gate.set()
    wait_until(lambda: ended(*requests))


def test_what_an_earlier_process_left_is_run(store, new_engine, new_request, ended):
    waiting, running = (store.trace_requests.add(new_request()) for _ in range(2))
    store.trace_requests.claim(running.id)

    new_engine(Worker(store).run).start()

    wait_until(lambda: ended(waiting, running))
    assert store.trace_requests.status(TENANT, running.id).attempt == 2


def test_a_worker_that_raises_is_tried_again_until_the_request_fails(store, new_engine, new_request, ended):
    attempts = []

    def raises(request_id: str, _: Cancellation) -> None:
        attempts.append(store.trace_requests.claim(request_id).attempt)
        raise ZeroDivisionError

    engine = new_engine(raises, attempts=3)
    engine.start()
    request = engine.submit(new_request())

    wait_until(lambda: ended(request))
    status = store.trace_requests.status(TENANT, request.id)
    assert (attempts, status.state, status.failure.slug) == ([1, 2, 3], State.FAILED, "tracer-lost")


def test_a_worker_that_raises_takes_no_slot_with_it(store, new_engine, new_request, ended):
    worker = Worker(store)
    poisoned = set()

    def raises_on_poison(request_id: str, cancellation: Cancellation) -> None:
        if request_id in poisoned:
            store.trace_requests.claim(request_id)
            raise ZeroDivisionError
        worker.run(request_id, cancellation)

    engine = new_engine(raises_on_poison, slots=1)
    engine.start()
    poison, request = new_request(), new_request()
    poisoned.add(poison.id)
    engine.submit(poison)
    engine.submit(request)

    wait_until(lambda: ended(poison, request))
    assert worker.begun == [request.id]


def test_a_request_that_cannot_be_settled_takes_no_slot_with_it(store, database_url, new_engine, new_request, ended):
    worker = Worker(store)
    gone = new_request()

    def removes_the_row(request_id: str, cancellation: Cancellation) -> None:
        if request_id != gone.id:
            return worker.run(request_id, cancellation)
        transactions = Transactions(connect(database_url))
        with transactions.write() as connection:
            for table in ("events", "submissions", "sources"):
                connection.execute(text(f"DELETE FROM {table} WHERE request_id = :id"), {"id": gone.id})
            connection.execute(text("DELETE FROM trace_requests WHERE id = :id"), {"id": gone.id})
        transactions.close()
        return None

    engine = new_engine(removes_the_row, slots=1)
    engine.start()
    request = new_request()
    engine.submit(gone)
    engine.submit(request)

    wait_until(lambda: ended(request))
    assert worker.begun == [request.id]


def test_a_worker_that_leaves_a_request_running_does_not_leave_it_for_ever(store, new_engine, new_request, ended):
    engine = new_engine(lambda request_id, _: store.trace_requests.claim(request_id), attempts=2)
    engine.start()

    request = engine.submit(new_request())

    wait_until(lambda: ended(request))
    assert store.trace_requests.status(TENANT, request.id).failure.slug == "tracer-lost"


def test_a_request_that_is_to_be_tried_again_is(store, new_engine, new_request, ended):
    worker = Worker(store)

    def fails_at_first(request_id: str, cancellation: Cancellation) -> None:
        if store.trace_requests.status(TENANT, request_id).attempt:
            return worker.run(request_id, cancellation)
        store.trace_requests.claim(request_id)
        store.trace_requests.retry(request_id, 1, FAILURE, attempts=3)
        return None

    engine = new_engine(fails_at_first)
    engine.start()
    request = engine.submit(new_request())

    wait_until(lambda: ended(request))
    assert store.trace_requests.status(TENANT, request.id).attempt == 2


def test_a_request_that_waits_can_be_cancelled_and_never_runs(store, new_engine, new_request, ended):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1)
    engine.start()
    running = engine.submit(new_request())
    worker.wait_for_start()
    waiting, last = engine.submit(new_request()), engine.submit(new_request())

    assert engine.cancel(TENANT, waiting.id).state is State.CANCELLED

    worker.gate.set()
    wait_until(lambda: ended(last))
    assert worker.begun == [running.id, last.id]


def test_a_request_that_runs_is_cancelled_at_once_and_its_worker_is_told(store, new_engine, new_request, state_of):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run)
    engine.start()
    request = engine.submit(new_request())
    worker.wait_for_start()

    assert engine.cancel(TENANT, request.id).state is State.CANCELLED

    wait_until(lambda: worker.reasons == ["cancelled"])
    assert state_of(request) is State.CANCELLED


def test_only_what_is_there_and_has_not_ended_can_be_cancelled(store, new_engine, new_request, ended):
    engine = new_engine(Worker(store).run)
    engine.start()
    request = engine.submit(new_request())
    wait_until(lambda: ended(request))

    with pytest.raises(TraceRequestEnded):
        engine.cancel(TENANT, request.id)
    with pytest.raises(TraceRequestNotFound):
        engine.cancel(TENANT, "nowhere")


def test_only_its_tenant_can_cancel_it(store, new_engine, new_request, ended, state_of):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1)
    engine.start()
    running, waiting = engine.submit(new_request()), engine.submit(new_request())
    worker.wait_for_start()

    for request in (running, waiting):
        with pytest.raises(TraceRequestNotFound):
            engine.cancel("theirs", request.id)

    worker.gate.set()
    wait_until(lambda: ended(running, waiting))
    assert worker.reasons == [None, None]
    assert (state_of(running), state_of(waiting)) == (State.FAILED, State.FAILED)


def test_what_runs_when_it_stops_is_queued_again_and_runs_under_the_next(
    store, new_engine, new_request, ended, state_of
):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1)
    engine.start()
    running = engine.submit(new_request())
    worker.wait_for_start()
    waiting = engine.submit(new_request())

    engine.stop(PATIENCE_S)

    assert worker.reasons == ["stopping"]
    assert (state_of(running), state_of(waiting)) == (State.QUEUED, State.QUEUED)
    new_engine(Worker(store).run).start()
    wait_until(lambda: ended(running, waiting))
    assert store.trace_requests.status(TENANT, running.id).attempt == 2


def test_a_stopped_engine_takes_nothing(store, new_engine, new_request):
    engine = new_engine(Worker(store).run)
    engine.start()
    engine.stop(PATIENCE_S)

    with pytest.raises(ShuttingDown):
        engine.submit(new_request())

    assert store.trace_requests.list(TENANT, 10).items == []


def test_a_full_queue_takes_no_more(store, new_engine, new_request):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1, queue_max=1)
    engine.start()
    engine.submit(new_request())
    worker.wait_for_start()
    engine.submit(new_request())

    with pytest.raises(QueueFull):
        engine.submit(new_request())


def test_a_tenant_that_is_over_its_quota_does_not_keep_others_out(store, new_engine, new_request):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1, quotas=Quotas(queued_max=1))
    engine.start()
    engine.submit(new_request())
    worker.wait_for_start()
    engine.submit(new_request())

    for ask in (engine.refuse, engine.submit):
        with pytest.raises(QueueQuotaExceeded):
            ask(new_request())
        ask(new_request(f"theirs-{ask.__name__}"))


def test_a_tenant_that_has_no_room_left_is_refused(store, new_engine, new_request):
    engine = new_engine(Worker(store).run, quotas=Quotas(stored_max_bytes=10))

    for ask in (engine.refuse, engine.submit):
        with pytest.raises(StorageQuotaExceeded):
            ask(new_request())


def test_of_uploads_that_come_at_once_only_those_that_get_a_place_are_kept(store, new_engine, new_request):
    """The files of the others would stay, and would count for nobody."""
    engine = new_engine(Worker(store).run, quotas=Quotas(queued_max=2), slots=0)
    together, kept = Barrier(8), []

    def submit(number: int) -> bool:
        request = new_request(options={"seed": number})
        engine.refuse(request)
        together.wait(PATIENCE_S)
        try:
            engine.submit(request, keep=lambda: kept.append(number))
        except QueueQuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        taken = [number for number, is_taken in enumerate(threads.map(submit, range(8))) if is_taken]

    assert len(taken) == 2
    assert sorted(kept) == taken


def test_a_submission_whose_files_are_stored_slowly_keeps_no_other_tenant_waiting(store, new_engine, new_request):
    engine = new_engine(Worker(store).run, slots=0)
    begun, stored = Event(), Event()

    def keep() -> None:
        begun.set()
        assert stored.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(engine.submit, new_request("slow"), keep=keep)
        try:
            assert begun.wait(PATIENCE_S)
            quick, without_files = new_request("quick"), new_request("slow")
            assert engine.submit(quick, keep=lambda: None).id == quick.id
            assert engine.submit(without_files).id == without_files.id
            assert not slow.done()
        finally:
            stored.set()
        assert slow.result().state is State.QUEUED


def test_a_submission_sent_again_under_its_key_runs_once(store, new_engine, new_request, ended):
    worker = Worker(store)
    engine = new_engine(worker.run)
    engine.start()
    first, again, last = (new_request() for _ in range(3))

    engine.submit(first, Idempotency.of("key", first))

    assert engine.submit(again, Idempotency.of("key", again)).id == first.id
    engine.submit(last)
    wait_until(lambda: ended(first, last))
    assert sorted(worker.begun) == sorted([first.id, last.id])


GPU = {"devices": ["cpu", "cuda"]}


def test_a_request_that_no_worker_takes_waits_and_says_so(store, new_engine, new_request, ended, state_of):
    worker = Worker(store)
    engine = new_engine(worker.run)
    engine.start()
    waits, runs = engine.submit(new_request(**GPU)), engine.submit(new_request())

    wait_until(lambda: ended(runs))
    assert (state_of(waits), worker.begun) == (State.QUEUED, [runs.id])
    assert engine.waiting(waits) == "no worker in pool gpu"
    assert engine.waiting(runs) is None


def test_a_request_that_a_newer_release_took_waits_for_one_and_says_so(
    store, new_engine, new_request, ended, state_of, monkeypatch
):
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "HEAD", "9999")
        waits = store.trace_requests.add(new_request())
    runs = store.trace_requests.add(new_request())
    worker = Worker(store)
    engine = new_engine(worker.run)
    engine.start()

    wait_until(lambda: ended(runs))
    assert (state_of(waits), worker.begun) == (State.QUEUED, [runs.id])
    wait_until(lambda: "of an older release" in (engine.waiting(waits) or ""))
    assert (engine.position(waits), engine.expected_start(waits)) == (None, None)
    assert engine.waiting(runs) is None


def test_a_request_that_no_worker_takes_can_be_cancelled(store, new_engine, new_request):
    engine = new_engine(Worker(store).run)
    engine.start()
    waits = engine.submit(new_request(**GPU))

    cancelled = engine.cancel(TENANT, waits.id)

    assert (cancelled.state, engine.waiting(cancelled)) == (State.CANCELLED, None)


def test_a_request_that_no_worker_takes_is_taken_up_by_a_start_with_slots(store, new_engine, new_request, ended):
    first = new_engine(Worker(store).run)
    first.start()
    waits = first.submit(new_request(**GPU))
    first.stop()
    without = new_engine(Worker(store).run)
    without.start()
    assert without.waiting(store.trace_requests.status(TENANT, waits.id)) == "no worker in pool gpu"
    without.stop()

    worker = Worker(store)
    engine = new_engine(worker.run, gpu_slots=1)
    assert engine.waiting(waits) is None
    engine.start()

    wait_until(lambda: ended(waits))
    assert worker.begun == [waits.id]


def test_each_pool_has_slots_of_its_own(store, new_engine, new_request):
    worker = Worker(store, gate=Event())
    engine = new_engine(worker.run, slots=1, gpu_slots=1)
    engine.start()
    engine.submit(new_request())
    worker.wait_for_start()

    of_gpu = engine.submit(new_request(**GPU))

    assert worker.wait_for_start() == of_gpu.id


def test_requests_that_no_worker_takes_count_in_their_tenants_quota(store, new_engine, new_request):
    engine = new_engine(Worker(store).run, quotas=Quotas(queued_max=1))
    engine.start()
    engine.submit(new_request(**GPU))

    with pytest.raises(QueueQuotaExceeded):
        engine.submit(new_request())
