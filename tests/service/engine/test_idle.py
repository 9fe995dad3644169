"""What a slot runs while nothing waits for it, and how that gives way."""

from collections.abc import Callable, Iterator
from threading import Event

import pytest

from service.domain.outcome import Succeeded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import State, TraceRequest
from service.engine.queue import Engine
from service.storage.database import Store
from tests.conftest import PATIENCE_S, TENANT, make_artifact, wait_until
from tests.service.engine.conftest import EngineClass
from tests.service.engine.test_engine import SteppedWorker, Worker
from tracehouse.findings.trace_check import Layer, TorchCheck, TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.spec.conversion import Conversion
from tracehouse.spec.trace_spec import CheckBudget

DIGEST = "sha256:" + "1" * 64
NewRequest = Callable[..., TraceRequest]


@pytest.fixture
def idle(new_request: NewRequest) -> TraceRequest:
    """A request that nobody asked for."""
    return new_request().going_on(DIGEST, "cpu", CheckBudget(budget="deep"), torch_version="2", is_idle=True)


@pytest.fixture
def start(store: Store, engine_class: EngineClass) -> Iterator[Callable[..., Engine]]:
    """Start an engine that finds these requests, one after the other, while nothing waits."""
    engines = []

    def start(worker: Worker, *found: TraceRequest, slots: int = 1, quotas: Quotas = NO_QUOTAS) -> Engine:
        left = [*found]
        engine = engine_class(
            store, worker.run, {"cpu": slots}, queue_max=100, attempts=3, pause_s=0.01, quotas=quotas,
            find_idle=lambda _: left.pop(0) if left else None, idle_after_s=0.01,
        )  # fmt: skip
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        engine.stop(PATIENCE_S)


def state_of(store: Store, request: TraceRequest) -> State:
    return store.trace_requests.status(TENANT, request.id).state


def test_an_idle_slot_runs_what_nobody_asked_for(
    store: Store, start: Callable[..., object], idle: TraceRequest
) -> None:
    worker = Worker(store)

    start(worker, idle)

    assert worker.wait_for_start() == idle.id
    wait_until(lambda: state_of(store, idle) is State.FAILED)  # as this worker ends everything


def test_without_the_setting_nothing_runs_that_nobody_asked_for(
    store: Store, engine_class: EngineClass, new_request: NewRequest, idle: TraceRequest
) -> None:
    worker = Worker(store)
    engine = engine_class(store, worker.run, {"cpu": 1}, queue_max=100, attempts=3, idle_after_s=0.01)
    engine.start()
    asked = [engine.submit(new_request()) for _ in range(3)]
    wait_until(lambda: all(state_of(store, one) is State.FAILED for one in asked))
    engine.stop(PATIENCE_S)

    assert sorted(worker.begun) == sorted(one.id for one in asked)
    assert idle.id not in worker.begun


def test_it_gives_way_to_what_is_asked_for_and_runs_again_later(
    store: Store, start: Callable[..., Engine], new_request: NewRequest, idle: TraceRequest
) -> None:
    worker = SteppedWorker(store)
    engine = start(worker, idle)
    assert worker.wait_for_start() == idle.id

    asked = engine.submit(new_request())

    assert worker.wait_for_start() == asked.id
    assert worker.reasons == ["giving way"]
    assert state_of(store, idle) is State.QUEUED
    worker.gates[idle.id] = Event()
    assert worker.end(asked) == idle.id
    worker.gates[idle.id].set()
    wait_until(lambda: state_of(store, idle) is State.FAILED)
    assert store.trace_requests.status(TENANT, idle.id).attempt == 2


def test_what_is_submitted_while_a_slot_looks_for_something_to_do_does_not_wait_for_that(
    store: Store, engine_class: EngineClass, new_request: NewRequest, idle: TraceRequest
) -> None:
    worker, asked, left = SteppedWorker(store), new_request(), [idle]

    def find(_: str) -> TraceRequest | None:
        if not left:
            return None
        engine.submit(asked)
        return left.pop()

    engine = engine_class(store, worker.run, {"cpu": 1}, queue_max=100, attempts=3, find_idle=find, idle_after_s=0.01)
    engine.start()

    wait_until(lambda: asked.id in worker.begun)
    assert not left
    engine.stop(PATIENCE_S)


def test_one_that_somebody_asked_for_meanwhile_is_left_to_its_turn(
    store: Store, engine_class: EngineClass, new_request: NewRequest, idle: TraceRequest
) -> None:
    worker, same = SteppedWorker(store), idle.model_copy(update={"id": "another", "is_idle": False})
    left = [idle]

    def find(_: str) -> TraceRequest | None:
        if not left:
            return None
        engine.submit(same)
        return left.pop()

    engine = engine_class(store, worker.run, {"cpu": 1}, queue_max=100, attempts=3, find_idle=find, idle_after_s=0.01)
    engine.start()
    assert worker.wait_for_start() == same.id

    other = engine.submit(new_request())

    assert worker.end(same) == other.id
    assert worker.reasons == [None]
    worker.gates[other.id].set()
    engine.stop(PATIENCE_S)


def test_one_that_gave_way_takes_no_room_from_what_is_asked_for(
    store: Store, new_request: NewRequest, idle: TraceRequest
) -> None:
    store.trace_requests.add(idle)

    store.trace_requests.add(new_request(), queue_max=1, quotas=Quotas(queued_max=1, stored_max_bytes=None))

    assert state_of(store, idle) is State.QUEUED


def test_only_one_runs_at_a_time(
    store: Store, start: Callable[..., object], new_request: NewRequest, idle: TraceRequest
) -> None:
    other = new_request(model="other").going_on(
        DIGEST, "cpu", CheckBudget(budget="deep"), torch_version="2", is_idle=True
    )
    worker = SteppedWorker(store)
    start(worker, idle, other, slots=3)
    assert worker.wait_for_start() == idle.id

    assert worker.end(idle) == other.id
    assert worker.begun == [idle.id, other.id]
    worker.gates[other.id].set()


def test_one_that_somebody_asks_for_gives_way_no_more(
    store: Store, start: Callable[..., Engine], new_request: NewRequest, idle: TraceRequest
) -> None:
    worker = SteppedWorker(store)
    engine = start(worker, idle)
    assert worker.wait_for_start() == idle.id
    same = idle.model_copy(update={"id": "another", "is_idle": False})

    taken = engine.submit(same)
    other = engine.submit(new_request())

    assert (taken.id, taken.is_idle) == (idle.id, False)
    assert worker.end(idle) == other.id
    assert worker.reasons == [None]
    worker.gates[other.id].set()


def test_one_that_gave_way_has_its_turn_when_somebody_asks_for_it(
    store: Store, start: Callable[..., Engine], new_request: NewRequest, idle: TraceRequest
) -> None:
    worker = SteppedWorker(store)
    engine = start(worker, idle)
    assert worker.wait_for_start() == idle.id
    first = engine.submit(new_request())
    assert worker.wait_for_start() == first.id
    wait_until(lambda: state_of(store, idle) is State.QUEUED)
    worker.gates[idle.id] = Event()

    engine.submit(idle.model_copy(update={"id": "another", "is_idle": False}))
    last = engine.submit(new_request())

    assert worker.end(first) == idle.id
    assert worker.end(idle) == last.id
    worker.gates[last.id].set()


def test_one_for_which_its_tenant_has_no_room_is_left_out(
    store: Store, start: Callable[..., Engine], new_request: NewRequest, idle: TraceRequest
) -> None:
    worker = Worker(store)
    other = new_request(model="other", tenant="other").going_on(
        DIGEST, "cpu", CheckBudget(budget="deep"), torch_version="2", is_idle=True
    )
    store.trace_requests.add(new_request(options={"seed": 1}))  # which takes the tenant's room

    start(worker, idle, other, quotas=Quotas(queued_max=None, stored_max_bytes=idle.submitted_bytes + 1_500))

    wait_until(lambda: other.id in worker.begun)
    assert idle.id not in worker.begun


def test_a_tenant_whose_queue_is_full_keeps_no_other_tenant_waiting(
    store: Store, start: Callable[..., Engine], new_request: NewRequest
) -> None:
    """What it queued waits for a slot that is not there, and the same artifact would be found again and again."""
    layer = Layer(name="prove", method="forward", seconds=1.0, summary="cut", is_cut=True)
    torch_check = TorchCheck(ran=False)
    check = TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=torch_check, layers=[layer])
    artifact, traced = make_artifact(check=check, conversion=Conversion()), new_request()
    store.trace_requests.add(traced)
    store.trace_requests.claim(traced.id)
    store.trace_requests.finish(traced.id, 1, Succeeded.of(traced.spec, [artifact]))
    assert store.further_checks.next_idle("cpu") == (TENANT, artifact.digest)
    found = traced.going_on(artifact.digest, "cpu", CheckBudget(budget="deep"), torch_version="2", is_idle=True)
    store.trace_requests.add(new_request(devices=["cuda"]))

    start(Worker(store), found, quotas=Quotas(queued_max=1, stored_max_bytes=None))

    wait_until(lambda: store.further_checks.next_idle("cpu") is None)


def test_after_a_restart_it_waits_until_nothing_else_does(
    store: Store, start: Callable[..., Engine], new_request: NewRequest, idle: TraceRequest
) -> None:
    store.trace_requests.add(idle)
    asked = store.trace_requests.add(new_request())
    worker = SteppedWorker(store)

    start(worker)

    assert worker.wait_for_start() == asked.id
    assert worker.end(asked) == idle.id
    worker.gates[idle.id].set()


def test_what_nobody_asked_for_is_cancelled_if_the_operator_does_not_like_it_any_more(
    store: Store, engine_class: EngineClass, idle: TraceRequest
) -> None:
    store.trace_requests.add(idle)
    engine = engine_class(store, Worker(store).run, {"cpu": 1}, queue_max=100, attempts=3)

    engine.start()

    assert state_of(store, idle) is State.CANCELLED
    engine.stop(PATIENCE_S)
