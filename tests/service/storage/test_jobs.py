"""The queue on PostgreSQL, as procrastinate's own tables have it."""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import pytest
from sqlalchemy import Connection, text

import migrations
from service.domain.errors import StorageUnavailable
from service.domain.trace_request import State, TraceRequest
from service.storage import jobs as storage_jobs
from service.storage import transactions
from service.storage.database import NotMigrated, Store, migrate
from service.storage.jobs import channel
from service.storage.notices import Notice, tell
from service.storage.transactions import connect
from tests.conftest import wait_until
from tests.service.conftest import POSTGRES_URL

needs_postgres = pytest.mark.skipif(POSTGRES_URL is None, reason="there is no PostgreSQL: TEST_POSTGRES_URL names one")


@pytest.fixture
def database_kind() -> str:
    return "postgresql"


@pytest.fixture
def request_of_aa(store: Store, new_request: Callable[..., TraceRequest]) -> TraceRequest:
    """One that waits, of the pool `cpu`, in which `worker` has a slot."""
    store.worker_turns.note_alive("worker", {"cpu": 1})
    request = new_request(tenant="aa")
    store.trace_requests.add(request)
    return request


def jobs(store: Store) -> list[tuple[str, str, bool]]:
    """The state of each job, its request, and whether it is to end."""
    query = text("SELECT status::text, lock, abort_requested FROM procrastinate_jobs ORDER BY id")
    with store._transactions.read() as connection:
        return [tuple(row) for row in connection.execute(query)]  # type: ignore[misc]


def begin(store: Store, request: TraceRequest) -> int:
    """Give the worker's slot to the request, and return the number of its attempt."""
    with store.worker_turns.open_pool("cpu", "worker") as pool:
        assert pool.begin(request.tenant, request.id)
    claimed = store.trace_requests.claim(request.id)
    assert claimed is not None
    return claimed.attempt


def test_the_migrations_make_the_tables_of_the_procrastinate_that_is_installed() -> None:
    """Another version's steps from these tables, which it has among its files, make a migration of ours."""
    from procrastinate.schema import SchemaManager

    made = (migrations.HERE / "procrastinate_3_10.sql").read_text(encoding="utf-8")

    assert made.endswith(SchemaManager.get_schema())


@needs_postgres
def test_an_attempt_is_a_job(store: Store, request_of_aa: TraceRequest) -> None:
    request = request_of_aa
    assert jobs(store) == [("todo", request.id, False)]

    attempt = begin(store, request)
    assert jobs(store) == [("doing", request.id, False)]

    store.trace_requests.release(request.id, attempt)
    assert jobs(store) == [("doing", request.id, False), ("todo", request.id, False)], "it waits, and its turn lasts"

    store.worker_turns.end(request.id, "worker", 3)
    assert jobs(store) == [("todo", request.id, False)]


@needs_postgres
def test_a_request_that_is_cancelled_has_no_job_that_waits_and_one_that_is_to_end(
    store: Store, request_of_aa: TraceRequest
) -> None:
    attempt = begin(store, request_of_aa)
    store.trace_requests.release(request_of_aa.id, attempt)

    with store.worker_turns.listen(["cpu", "gpu"]) as notices:
        store.trace_requests.cancel("aa", request_of_aa.id)
        wait_until(lambda: ("stop", "cpu") in notices.wait(0.1))

    assert jobs(store) == [("doing", request_of_aa.id, True)]
    store.worker_turns.end(request_of_aa.id, "worker", 3)
    assert jobs(store) == []


@needs_postgres
def test_what_gives_way_waits_again_beside_the_job_that_is_to_end(store: Store, request_of_aa: TraceRequest) -> None:
    attempt = begin(store, request_of_aa)

    with store.worker_turns.open_pool("cpu", "worker") as pool:
        pool.give_way(request_of_aa.id)
    assert store.worker_turns.own("worker")[request_of_aa.id] == (True, State.RUNNING)
    store.trace_requests.release(request_of_aa.id, attempt)

    assert jobs(store) == [("doing", request_of_aa.id, True), ("todo", request_of_aa.id, False)]


@needs_postgres
def test_what_somebody_else_ends_just_now_need_not_give_way(store: Store, request_of_aa: TraceRequest) -> None:
    """Whoever has several give way would otherwise wait for one, and have another one for which the first waits."""
    begin(store, request_of_aa)

    with store._transactions.write() as other:
        other.execute(text("SELECT FROM procrastinate_jobs FOR UPDATE"))
        with store.worker_turns.open_pool("cpu", "worker") as pool:
            pool.give_way(request_of_aa.id)

    assert jobs(store) == [("doing", request_of_aa.id, False)]


@needs_postgres
def test_a_request_without_a_job_has_its_turn(store: Store, request_of_aa: TraceRequest) -> None:
    """As after a move to this database, or where somebody has tidied up with procrastinate's own command."""
    with store._transactions.write() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))

    assert begin(store, request_of_aa) == 1

    assert jobs(store) == [("doing", request_of_aa.id, False)]


@needs_postgres
def test_a_worker_that_counted_as_lost_is_a_new_one(store: Store, request_of_aa: TraceRequest) -> None:
    begin(store, request_of_aa)
    store.worker_turns.reap(3, silent_s=-1)  # everybody is silent

    with store.worker_turns.open_pool("cpu", "worker") as pool:
        assert (pool.begin("aa", request_of_aa.id), pool.state.slots) == (False, 0)
    assert jobs(store) == [("todo", request_of_aa.id, False)]
    assert store.trace_requests.status("aa", request_of_aa.id).state is State.QUEUED
    store.worker_turns.note_alive("worker", {"cpu": 1})

    assert store.worker_turns.own("worker") == {}
    assert begin(store, request_of_aa) == 2
    assert [*store.worker_turns.own("worker")] == [request_of_aa.id]


@needs_postgres
def test_a_worker_that_is_there_again_stays_while_others_look_for_lost_ones(
    store: Store, request_of_aa: TraceRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store._transactions.write() as connection:
        connection.execute(text("DELETE FROM procrastinate_workers"))
    reaped: list[Future[bool]] = []

    def reap_meanwhile(connection: Connection, notices: Iterable[Notice]) -> None:
        if not reaped:
            reaped.append(threads.submit(store.worker_turns.reap, 3, silent_s=None))
            wait_until(lambda: blocks_somebody(connection))
        tell(connection, notices)

    monkeypatch.setattr(transactions, "tell", reap_meanwhile)
    with ThreadPoolExecutor() as threads:
        store.worker_turns.note_alive("worker", {"cpu": 1})
        assert reaped[0].result()

    assert begin(store, request_of_aa) == 1


@needs_postgres
@pytest.mark.parametrize("what", ["its worker leaves it", "its worker is lost"])
def test_a_request_may_be_cancelled_while_its_turn_ends(
    store: Store, request_of_aa: TraceRequest, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Neither waits for what the other one has, for the database would end one of them then."""
    begin(store, request_of_aa)
    cancel_jobs = storage_jobs.cancel
    ended: list[Future[object]] = []

    def end() -> None:
        if what == "its worker is lost":
            assert store.worker_turns.reap(3, silent_s=-1)
        else:
            store.worker_turns.end(request_of_aa.id, "worker", 3)

    def end_meanwhile(connection: Connection, request_id: str) -> None:
        ended.append(threads.submit(end))
        wait_until(lambda: blocks_somebody(connection))
        cancel_jobs(connection, request_id)

    monkeypatch.setattr(storage_jobs, "cancel", end_meanwhile)
    with ThreadPoolExecutor() as threads:
        store.trace_requests.cancel("aa", request_of_aa.id)
        ended[0].result()

    assert store.trace_requests.status("aa", request_of_aa.id).state is State.CANCELLED
    assert jobs(store) == []


def blocks_somebody(connection: Connection) -> bool:
    query = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
    return connection.scalar(query) > 0


@needs_postgres
def test_what_others_tell_on_the_channel_of_a_pool_is_left_alone(store: Store) -> None:
    """All services on a database hear the same, whatever schema they use, and so may other users of procrastinate."""
    pool, told = uuid4().hex, []

    with store.worker_turns.listen([pool]) as notices:
        with store._transactions.write() as connection:
            for said in ('{"type": "something_new"}', "no JSON", "3", '{"type": "job_inserted", "job_id": 1}'):
                connection.execute(text("SELECT pg_notify(:channel, :said)"), {"channel": channel(pool), "said": said})
        wait_until(lambda: told.extend(one for one in notices.wait(0.1) if one.subject == pool) or told)

    assert told == [("queued", pool)]


@needs_postgres
def test_what_waited_before_there_were_jobs_has_one(
    store: Store, request_of_aa: TraceRequest, new_request: Callable[..., TraceRequest]
) -> None:
    later = new_request()
    store.trace_requests.add(later)
    runs = new_request()
    store.trace_requests.add(runs)
    begin(store, runs)

    with store._transactions.write() as connection:
        migrations.downgrade(connection, "0024")
        assert connection.scalar(text("SELECT to_regclass('procrastinate_jobs')")) is None
    with store._transactions.write() as connection:
        migrations.upgrade(connection)

    assert jobs(store) == [("todo", request_of_aa.id, False), ("todo", later.id, False)]
    store.worker_turns.reap(3, silent_s=None)
    assert jobs(store)[2:] == [("todo", runs.id, False)]


@needs_postgres
def test_tables_of_another_program_stay_as_they_are(empty_database_url: str) -> None:
    from procrastinate.schema import SchemaManager

    with closing(transactions.Transactions(connect(empty_database_url))) as opened:
        with opened.write() as connection:
            connection.exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))
            connection.execute(text("SELECT procrastinate_register_worker_v1()"))

        with pytest.raises(NotMigrated, match="a database, or a schema, of its own"):
            migrate(empty_database_url)

        with opened.read() as connection:
            assert connection.scalar(text("SELECT count(*) FROM procrastinate_workers")) == 1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "procrastinate", None)

    with pytest.raises(StorageUnavailable, match=r"pip install 'tracehouse-service\[postgres\]'"):
        connect("postgresql://nobody@nowhere/none")
