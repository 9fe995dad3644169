"""Turns: which process runs which trace request, where several run them. They need PostgreSQL.

A turn is a job that has a slot. A worker takes it before it claims the request, and ends it after the request has ended
or is queued again. Workers say every now and then that they are there. The turns of one that has not for a while are
removed, and its requests are queued again; whatever it still reports is fenced by the number of the attempt.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, case, delete, func, literal, literal_column, select, text

import migrations
from service.domain.trace_request import State
from service.storage import jobs, tables
from service.storage.attempt_ends import BACK_TO_QUEUED, retry_attempt
from service.storage.notices import Notice, Notices, listen
from service.storage.trace_counts import AttemptEnd, TraceCounts
from service.storage.trace_request_rows import change_row, running_attempt
from service.storage.transactions import Transactions, announce, translate_errors, upsert
from tracehouse.errors import TracerLost
from tracehouse.spec.trace_spec import BudgetName

_request = tables.trace_requests.c
_turn = jobs.running.c
_worker = tables.workers.c
_last = tables.last_turns.c


class Waiting(NamedTuple):
    tenant: str
    created_at: datetime
    request_id: str
    budget: BudgetName
    has_begun: bool


class TurnRow(NamedTuple):
    request_id: str
    tenant: str
    is_idle: bool
    gives_way: bool
    budget: BudgetName
    began_at: datetime | None
    created_at: datetime | None


class PoolWorker(NamedTuple):
    """A worker of a pool: the revision that its release knows, and its slots there."""

    revision: str
    slots: int


class OwnTurn(NamedTuple):
    """A turn of this worker. `state` is None if its request was deleted."""

    gives_way: bool
    state: State | None


@dataclass(frozen=True)
class PoolState:
    """One pool: its slots, what waits, the turns in the order in which they began, and the tenants' last turns.

    Of what waits, each tenant's oldest of each budget, and the oldest that never began, which decide who is next; or
    all, for positions.
    """

    slots: int = 0
    newest_worker: str = ""  # the revision that the newest release of its workers knows
    waiting: Sequence[Waiting] = ()
    turns: Sequence[TurnRow] = ()
    last_turns: Mapping[str, int] = field(default_factory=dict)


class Pool:
    """One pool within a transaction: nobody else begins a turn in it or has one give way until this one ends.

    Of what waits, it has each tenant's oldest of each budget, and the oldest that never began, so that a turn costs the
    same however many wait; and only what releases that know `revision` can run.
    """

    def __init__(
        self, connection: Connection, name: str, worker: str, workers: Sequence[PoolWorker], revision: str
    ) -> None:
        self._connection = connection
        self._name = name
        self._worker = worker
        self._revision = revision
        self.state = _read_pool(connection, name, workers, _oldest_waiting(connection, name, revision))

    def begin(self, tenant: str, request_id: str, *, is_idle: bool = False) -> bool:
        """Begin a turn of this worker; False if it counts as lost, or has not said yet that it is there.

        A turn for what nobody asked for does not count as its tenant's last.
        """
        number = jobs.hold(self._connection, _number_of(self._worker))
        if number is None:
            return False
        jobs.claim(self._connection, self._name, request_id, number)
        if not is_idle:
            self._note_last_turn(tenant)
        return True

    def gave_way(self) -> Sequence[Waiting]:
        """Return the requests that nobody asked for, and that wait until nothing else does."""
        is_known = _request.revision <= self._revision
        return _waiting(self._connection, self._name, is_known, is_idle=True)

    def give_way(self, request_id: str) -> None:
        """Have the turn of this request give way."""
        jobs.abort(self._connection, request_id)

    def note_asked(self, tenant: str, request_id: str) -> None:
        """Let the turn of a request that nobody had asked for, if it has one, be its tenant's last."""
        if self._connection.scalar(select(jobs.has_slot(literal(request_id)))):
            self._note_last_turn(tenant)

    def any_idle_turn(self) -> bool:
        """Whether any worker of any pool runs what nobody asked for. None begins until this transaction ends."""
        _lock(self._connection, "idle")
        idle = select(literal(1)).where(_request.is_idle, _request.id == _turn.request_id).limit(1)
        return self._connection.scalar(idle) is not None

    def _note_last_turn(self, tenant: str) -> None:
        highest = select(func.max(_last.number)).where(_last.pool == self._name).scalar_subquery()
        number = func.coalesce(highest, 0) + 1
        noting = upsert(self._connection, tables.last_turns).values(pool=self._name, tenant=tenant, number=number)
        key = ["pool", "tenant"]
        self._connection.execute(noting.on_conflict_do_update(index_elements=key, set_={"number": number}))


class WorkerTurns:
    """The turns of all workers, as one of them sees them. A process that runs nothing only reads."""

    def __init__(self, transactions: Transactions, counts: TraceCounts) -> None:
        self._transactions = transactions
        self._counts = counts

    @contextmanager
    def open_pool(self, pool: str, worker: str, *, for_all: bool = False) -> Iterator[Pool]:
        """Keep others from beginning turns in the pool until the block ends.

        Of what waits, it has what this process can run, or, `for_all`, what every worker of the pool can: during an
        update, some are of an older release than the one that took a request.
        """
        with self._transactions.write() as connection:
            migrations.require_usable(connection)
            _lock(connection, f"pool {pool}")
            workers = _read_workers(connection, pool)
            others = [one.revision for one in workers] if for_all else []
            yield Pool(connection, pool, worker, workers, min([migrations.HEAD, *others]))

    def read_pool(self, pool: str) -> PoolState:
        """Return the pool with all that waits."""
        with self._transactions.read() as connection:
            workers = _read_workers(connection, pool)
            return _read_pool(connection, pool, workers, _waiting(connection, pool, is_idle=False))

    def gave_way(self, pool: str) -> Sequence[Waiting]:
        """Return the requests that nobody asked for, and that wait until nothing else does."""
        with self._transactions.read() as connection:
            return _waiting(connection, pool, is_idle=True)

    def end(self, request_id: str, worker: str, attempts: int, *, is_fault: bool = True) -> None:
        """End the worker's turn. A request that still runs then was left by its worker, and is queued again."""
        lost = TracerLost("the worker did not end it", attempts=attempts).failure()
        row = None
        with self._transactions.write() as connection:
            # The request is locked before its job, as whoever cancels it does.
            left = select(_request.state, _request.attempt).where(_request.id == request_id).with_for_update()
            found = connection.execute(left).one_or_none()
            pool = jobs.end(connection, request_id, _number_of(worker))
            if pool is None:  # the worker counted as lost, and another one may run the request
                return
            if found is not None and found.state == State.RUNNING.value:
                if is_fault:
                    row = retry_attempt(connection, request_id, found.attempt, lost, attempts)
                else:
                    row = change_row(connection, *running_attempt(request_id, found.attempt), **BACK_TO_QUEUED)
            # A free slot, and perhaps a request that waits again: none could be taken while the turn lasted.
            announce(connection, Notice("queued", pool))
        if row is not None:
            self._counts.count_end(row, AttemptEnd.LOST if is_fault else AttemptEnd.RELEASED, lost.slug)

    def note_alive(self, worker: str, slots: Mapping[str, int]) -> None:
        """Say that the worker is there, with so many slots of each pool.

        One that counted as lost is a new one from now on, which has none of the turns that it had.
        """
        with self._transactions.write() as connection:
            number = _number(connection, worker)
            if number is None:
                said = {"number": jobs.register(connection), "slots": {**slots}, "revision": migrations.HEAD}
                noting = upsert(connection, tables.workers).values(id=worker, **said)
                connection.execute(noting.on_conflict_do_update(index_elements=["id"], set_=said))
            else:
                jobs.note_alive(connection, number)

    def own(self, worker: str) -> dict[str, OwnTurn]:
        """Return the worker's turns by their requests."""
        query = (
            select(_turn.request_id, _turn.is_aborted, _request.state)
            .join(tables.workers, _worker.number == _turn.worker)
            .outerjoin(tables.trace_requests, _request.id == _turn.request_id)
            .where(_worker.id == worker)
        )
        with self._transactions.read() as connection:
            rows = connection.execute(query).all()
        return {
            row.request_id: OwnTurn(row.is_aborted, None if row.state is None else State(row.state)) for row in rows
        }

    def leave(self, worker: str) -> None:
        """Say that the worker is gone. What it has not ended is lost."""
        with self._transactions.write() as connection:
            number = _number(connection, worker)
            if number is not None:
                jobs.unregister(connection, number)
                connection.execute(delete(tables.workers).where(_worker.id == worker))

    def reap(self, attempts: int, *, silent_s: float | None) -> bool:
        """Queue again, or fail after `attempts`, what runs and has no live worker; False if another process does so.

        A worker that was silent for `silent_s` is lost; None: no silence counts.
        """
        if not self._end_lost(silent_s):
            return False
        lost = TracerLost("the process that ran this was lost", attempts=attempts).failure()
        with self._transactions.write() as connection:
            if not _try_lock(connection, "reaper"):
                return False
            is_left = _request.state == State.RUNNING.value, ~jobs.has_slot(_request.id)
            running = select(_request.id, _request.attempt).where(*is_left)
            ended = [
                retry_attempt(connection, request_id, attempt, lost, attempts)
                for request_id, attempt in connection.execute(running).all()
            ]
        for row in ended:
            if row is not None:
                self._counts.count_end(row, AttemptEnd.LOST, lost.slug)
        return True

    def _end_lost(self, silent_s: float | None) -> bool:
        """End the jobs of lost workers; False if another process does so.

        This is a transaction of its own: it locks jobs, and whoever cancels a request has locked that before its jobs.
        """
        with self._transactions.write() as connection:
            if not _try_lock(connection, "reaper"):
                return False
            if silent_s is not None:
                jobs.remove_silent(connection, silent_s)
            # Their numbers are read first: a row that waits for a lock is judged by workers as they were before.
            gone = connection.execute(select(_worker.number).where(~jobs.is_there(_worker.number))).scalars().all()
            connection.execute(delete(tables.workers).where(_worker.number.in_(gone)))
            for pool in jobs.end_lost(connection):
                announce(connection, Notice("queued", pool))
        return True

    @contextmanager
    def listen(self, pools: Collection[str]) -> Iterator[Notices]:
        """Listen to what all processes on this database tell, and to what is told of the jobs of these pools."""
        with translate_errors(), listen(self._transactions.engine, pools) as notices:
            yield notices


_KEY = "hashtextextended('tracehouse ' || current_schema() || ' ' || :name, 0)"


def _lock(connection: Connection, name: str) -> None:
    connection.execute(text(f"SELECT pg_advisory_xact_lock({_KEY})"), {"name": name})


def _try_lock(connection: Connection, name: str) -> bool:
    return bool(connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({_KEY})"), {"name": name}))


# From one tenant and budget to the next in the index of what waits, because PostgreSQL would read all that waits for a
# DISTINCT. Of each the oldest whose turn has not begun, and the oldest that never began at all.
_OLDEST_WAITING = text(
    f"""
    WITH RECURSIVE kinds AS (
        (SELECT tenant, budget FROM trace_requests WHERE pool = :pool AND state = 'queued' AND NOT is_idle
         ORDER BY tenant, budget LIMIT 1)
        UNION ALL
        SELECT later.tenant, later.budget FROM kinds CROSS JOIN LATERAL (
            SELECT tenant, budget FROM trace_requests AS one
            WHERE one.pool = :pool AND one.state = 'queued' AND NOT one.is_idle
            AND (one.tenant, one.budget) > (kinds.tenant, kinds.budget)
            ORDER BY one.tenant, one.budget LIMIT 1
        ) AS later
    )
    SELECT DISTINCT kinds.tenant, oldest.created_at, oldest.id, kinds.budget, oldest.attempt > 0
    FROM kinds CROSS JOIN (VALUES (0), (2147483647)) AS attempts (most) CROSS JOIN LATERAL (
        SELECT created_at, id, attempt FROM trace_requests AS one
        WHERE one.pool = :pool AND one.state = 'queued' AND NOT one.is_idle
        AND one.tenant = kinds.tenant AND one.budget = kinds.budget AND one.revision <= :revision
        AND one.attempt <= attempts.most
        AND NOT {jobs.has_slot(literal_column("one.id"))}
        ORDER BY one.created_at, one.id LIMIT 1
    ) AS oldest
    ORDER BY 2, 3
    """
)


def _oldest_waiting(connection: Connection, pool: str, revision: str) -> list[Waiting]:
    values = {"pool": pool, "revision": revision}
    return [Waiting(*row) for row in connection.execute(_OLDEST_WAITING, values)]


def _waiting(connection: Connection, pool: str, *conditions: ColumnElement[bool], is_idle: bool) -> list[Waiting]:
    query = (
        select(_request.tenant, _request.created_at, _request.id, _request.budget, _request.attempt > 0)
        .where(_request.state == State.QUEUED.value, _request.pool == pool, _request.is_idle.is_(is_idle))
        .where(~jobs.has_slot(_request.id), *conditions)
        .order_by(_request.created_at, _request.id)
    )
    return [Waiting(*row) for row in connection.execute(query)]


def _read_pool(
    connection: Connection, pool: str, workers: Sequence[PoolWorker], waiting: Sequence[Waiting]
) -> PoolState:
    began_at = case((_request.state == State.RUNNING.value, _request.started_at))
    turns = (
        select(
            _turn.request_id,
            _request.tenant,
            _request.is_idle,
            _turn.is_aborted,
            _request.budget,
            began_at,
            _request.created_at,
        )
        .join(tables.trace_requests, _request.id == _turn.request_id)
        .where(_turn.pool == pool)
        .order_by(_turn.began)
    )
    return PoolState(
        slots=sum(one.slots for one in workers),
        newest_worker=max((one.revision for one in workers), default=""),
        waiting=waiting,
        turns=[TurnRow(*row) for row in connection.execute(turns)],
        last_turns={
            row.tenant: row.number
            for row in connection.execute(select(_last.tenant, _last.number).where(_last.pool == pool))
        },
    )


def _read_workers(connection: Connection, pool: str) -> list[PoolWorker]:
    rows = connection.execute(select(_worker.revision, _worker.slots).where(jobs.is_there(_worker.number)))
    return [PoolWorker(row.revision, row.slots[pool]) for row in rows if row.slots.get(pool)]


def _number_of(worker: str) -> Select[int]:
    """Return what finds the worker's number among those of the jobs; nothing if it has said nothing yet."""
    return select(_worker.number).where(_worker.id == worker)


def _number(connection: Connection, worker: str) -> int | None:
    """Return the worker's number; None if it has said nothing yet, or counts as lost."""
    return connection.scalar(_number_of(worker).where(jobs.is_there(_worker.number)))
