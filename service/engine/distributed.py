"""The distributed engine: one of many processes, on any hosts, that share a PostgreSQL and the trace requests in it.

Each has the slots that it is given; one without slots takes requests and runs none. procrastinate has the queue, and
knows who runs what. Who is next is read from the tables, under a lock of the pool, so that tenants have their turns
over all processes together. Notices wake whoever waits; a look at the tables every few seconds finds what a lost notice
would have told.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf
from time import monotonic
from types import MappingProxyType
from uuid import uuid4

import migrations
from service.domain.audit import SERVICE, Actor
from service.domain.errors import ReleaseTooOld, StorageUnavailable, TraceRequestEnded, TraceRequestNotFound
from service.domain.idempotency import Idempotency
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import State, TraceRequest, TraceStatus
from service.engine.cannot_begin import cannot_begin
from service.engine.expected_start import Durations
from service.engine.fair_order import FairOrder, Turn
from service.engine.further_check import FindIdle
from service.engine.intake import Intake
from service.engine.pool_view import PoolView, order_of
from service.engine.queue import Work
from service.sandbox.cancellation import Cancellation
from service.storage.allowances import Allowance
from service.storage.database import Store
from service.storage.notices import Notice
from service.storage.transactions import is_lost
from service.storage.turns import Pool, PoolState
from tracehouse.spec.trace_spec import BudgetName

_LISTEN_S = 0.25  # after which a listener looks whether the engine stops

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a process says that it is there and looks at the tables, and after which silence it counts as lost."""

    look_s: float = 2.0
    silent_s: float = 15.0


class DistributedEngine:
    """Runs as many requests of a pool at a time as it has slots, tenants in turn over all processes on the database.

    Requests of a pool for which no process has slots wait for one with some. After an unforeseen fault, a slot waits
    for `pause_s`. A running request is stopped and queued again if it has to give way: see FairOrder.

    If nothing waits for a pool during `idle_after_s`, a slot runs what `find_idle` gives it: one such request at a time
    in all processes, which is stopped and queued again as soon as anything else waits for the pool.

    `limits_s` are the seconds that a request of each budget may take. A process that nobody asks for positions tells
    none, and needs not read all that waits. Of the slots of a pool, in all processes, `quick_slots` are kept for those
    with the budget `quick`.
    """

    def __init__(
        self,
        store: Store,
        work: Work,
        slots: Mapping[str, int],
        queue_max: int,
        attempts: int,
        pause_s: float = 1.0,
        quotas: Quotas = NO_QUOTAS,
        find_idle: FindIdle | None = None,
        idle_after_s: float = 5.0,
        pace: Pace | None = None,
        limits_s: Mapping[BudgetName, float] = MappingProxyType({}),
        tells_positions: bool = True,
        quick_slots: int = 0,
    ) -> None:
        self.id = f"{socket.gethostname()} {os.getpid()} {uuid4().hex}"
        self._store = store
        self._turns = store.worker_turns
        self._work = work
        self._own_slots = {pool: count for pool, count in slots.items() if count}
        self._attempts = attempts
        self._pause_s = pause_s
        self._find_idle = find_idle
        self._idle_after_s = idle_after_s
        self._limits_s = limits_s
        self._tells_positions = tells_positions
        self._quick_slots = quick_slots
        self._pace = pace or Pace()
        self._finding = threading.Lock()
        self._stopping = threading.Event()
        self._intake = Intake(store, queue_max, quotas, self._stopping)
        self._lock = threading.Lock()
        self._running: dict[str, Cancellation] = {}
        self._beginning = 0  # slots that begin a turn which is not among those that run yet
        self._long_after_s = limits_s.get("quick", inf)
        self._views = {pool: PoolView(quick_slots, self._long_after_s) for pool in slots}
        self._bells = {pool: _Bell() for pool in self._own_slots}
        self._look_now = threading.Event()
        self._alive_since: float | None = None
        self._noted_at: float | None = None
        self._slot_threads = [
            threading.Thread(target=self._take_turns, args=(pool,), name=f"{pool} {slot}", daemon=True)
            for pool, count in self._own_slots.items()
            for slot in range(count)
        ]
        self._other_threads = [
            threading.Thread(target=self._look_again_and_again, name="engine looks", daemon=True),
            threading.Thread(target=self._listen_again_and_again, name="engine listens", daemon=True),
        ]

    @property
    def slots(self) -> Mapping[str, int]:
        """How many requests of each pool run at the same time, in all processes."""
        return {pool: self._slots_of(pool) for pool in self._views}

    @property
    def takes_turns(self) -> bool:
        """Whether its slots begin requests: they run, and the database does not count this process as lost."""
        noted_at = self._noted_at
        is_heard = noted_at is not None and monotonic() - noted_at < self._pace.silent_s
        return is_heard and all(thread.is_alive() for thread in self._slot_threads)

    def start(self) -> None:
        self._look()
        if self._own_slots and self._find_idle is None:
            self._cancel_idle()
        for thread in (*self._other_threads, *self._slot_threads):
            thread.start()

    def refuse(
        self, request: TraceRequest, idempotency: Idempotency | None = None, *, allowance: Allowance | None = None
    ) -> None:
        self._intake.refuse(request, idempotency, allowance=allowance)

    def submit(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        keep: Callable[[], object] | None = None,
        allowance: Allowance | None = None,
        by: Actor = SERVICE,
    ) -> TraceStatus:
        stored = self._intake.add(request, idempotency, keep=keep, allowance=allowance, by=by)
        if stored.id != request.id and stored.is_idle and not stored.state.is_final:
            stored = self._take_over(stored)
        elif stored.id != request.id:
            return stored
        self._see(stored)
        try:
            self._make_room(stored.pool)
        except StorageUnavailable:  # it is stored, and whoever looks next makes room
            log.exception("nobody was made to give way yet", extra={"trace_request": stored.id})
        return stored

    def waiting(self, request: TraceStatus) -> str | None:
        return cannot_begin(request, self._slots_of(request.pool), self._newest_worker_of(request.pool))

    def position(self, request: TraceStatus) -> int | None:
        view = self._views.get(request.pool)
        return None if view is None or self.waiting(request) else view.position(request)

    def expected_start(self, request: TraceStatus) -> datetime | None:
        view = self._views.get(request.pool)
        return None if view is None or self.waiting(request) else view.expected_start(request)

    def cancel(self, tenant: str, request_id: str, *, by: Actor = SERVICE) -> TraceStatus:
        cancelled = self._store.trace_requests.cancel(tenant, request_id, by=by)
        with self._lock:
            cancellation = self._running.get(request_id)
        if cancellation is not None:
            cancellation.set("cancelled")
        if cancelled.pool in self._views:
            self._views[cancelled.pool].remove(cancelled)
        try:
            self._make_room(cancelled.pool)
        except StorageUnavailable:  # it is cancelled
            log.exception("the queue could not be read", extra={"trace_request": request_id})
        return cancelled

    def stop(self, grace_s: float = 10.0) -> None:
        with self._lock:
            self._stopping.set()
            running = [*self._running.values()]
        for bell in self._bells.values():
            bell.ring_all()
        for cancellation in running:
            cancellation.set("stopping")
        self._look_now.set()
        until = monotonic() + grace_s
        for thread in (*self._slot_threads, *self._other_threads):
            if thread.is_alive():
                thread.join(max(0.0, until - monotonic()))
        try:
            self._turns.leave(self.id)
        except StorageUnavailable:  # it counts as lost after a while
            log.exception("the database does not know that this process stops")

    # ── a slot

    def _take_turns(self, pool: str) -> None:
        """Run the requests of the pool, one after the other, until the engine stops."""
        bell, idle_since = self._bells[pool], monotonic()
        while not self._stopping.is_set():
            try:
                with self._begins():
                    turn = self._begin_turn(pool)
                    if turn is None and self._find_idle is not None and monotonic() - idle_since >= self._idle_after_s:
                        turn = self._begin_idle_turn(pool)
                        idle_since = monotonic()
                    earlier = None if turn is None else self._note_running(turn)
                if turn is None:
                    bell.wait(self._pace.look_s if self._find_idle is None else self._idle_after_s)
                    continue
                bell.ring()  # perhaps for the next slot, too
                self._run(turn, earlier)
                idle_since = monotonic()
            except StorageUnavailable:
                log.warning("a slot waits for the database")
                self._stopping.wait(self._pause_s)
            except Exception:  # a thread that ended would be missing until the next start
                log.exception("a slot's work raised")
                self._stopping.wait(self._pause_s)

    def _begin_turn(self, pool: str) -> Turn | None:
        with self._open(pool) as (opened, order):
            if not order.has_next or self._stopping.is_set():
                return None
            turn = order.next()
            if not opened.begin(turn.tenant, turn.request_id):
                return None
        self._views[pool].begin(turn)
        return turn

    def _begin_idle_turn(self, pool: str) -> Turn | None:
        """Begin a turn for what nobody asked for: what gave way before, or else what is found."""
        if not self._finding.acquire(blocking=False):  # another slot looks, and one is enough
            return None
        try:
            turn, is_free = self._begin_one_that_gave_way(pool)
            if turn is not None or not is_free:
                return turn
            found = None if self._find_idle is None else self._find_idle(pool)
            if found is None or self._intake.add_idle(found) is None:
                return None
            return self._begin_one_that_gave_way(pool)[0]
        finally:
            self._finding.release()

    def _begin_one_that_gave_way(self, pool: str) -> tuple[Turn | None, bool]:
        """Return the turn, if one begins, and whether one may: nothing waits, and no other slot does the same."""
        with self._open(pool) as (opened, order):
            if order.anything_waits or opened.any_idle_turn():
                return None, False
            for gave_way in opened.gave_way():
                if not opened.begin(gave_way.tenant, gave_way.request_id, is_idle=True):
                    return None, False
                return Turn(gave_way.tenant, gave_way.request_id), True
        return None, True

    def _cancel_idle(self) -> None:
        """Cancel what waits and nobody asked for: the operator does not like it any more."""
        try:
            for pool in self._own_slots:
                for one in self._turns.gave_way(pool):
                    with suppress(TraceRequestEnded, TraceRequestNotFound, ReleaseTooOld):
                        self._store.trace_requests.cancel(one.tenant, one.request_id)
        except StorageUnavailable:  # it waits until the next start
            log.exception("what nobody asked for was not cancelled")

    @contextmanager
    def _begins(self) -> Iterator[None]:
        with self._lock:
            self._beginning += 1
        try:
            yield
        finally:
            with self._lock:
                self._beginning -= 1

    def _note_running(self, turn: Turn) -> Cancellation | None:
        """Note that the turn's request runs; return what stops it in another slot, if it still runs there."""
        with self._lock:
            earlier = self._running.setdefault(turn.request_id, turn.cancellation)
            if self._stopping.is_set():
                turn.cancellation.set("stopping")
        return None if earlier is turn.cancellation else earlier

    def _run(self, turn: Turn, earlier: Cancellation | None) -> None:
        request_id = turn.request_id
        if earlier is not None:
            # Another slot runs it: this process counted as lost, and others queued it again. It begins when that ends.
            earlier.set("stopping")
            self._settle(turn)
            self._stopping.wait(self._pause_s)
            return
        is_away = False
        try:
            if turn.cancellation.reason is None:
                self._work(request_id, turn.cancellation)
        except Exception as error:
            is_away = is_lost(error)
            log.exception("the worker raised", extra={"trace_request": request_id})
            # A full disk, for example, stays full for a while, and the request is the first of its tenant again.
            self._stopping.wait(self._pause_s)
        finally:
            self._settle(turn, is_away=is_away)
            with self._lock:
                del self._running[request_id]

    def _settle(self, turn: Turn, *, is_away: bool = False) -> None:
        """End the turn. Whatever goes wrong with this request, the slot goes on with the next.

        If the database is or was away, that is why the worker did not end the request, and nobody's fault. If it
        answers at once, something else is wrong.
        """
        while True:
            try:
                self._turns.end(turn.request_id, self.id, self._attempts, is_fault=not is_away)
                for view in self._views.values():
                    view.end(turn)
                return None
            except StorageUnavailable:
                is_away = True
                log.warning("a slot waits for the database", extra={"trace_request": turn.request_id})
                if self._stopping.wait(self._pause_s):
                    return None  # this process counts as lost after a while, and others queue the request again
            except Exception:  # noqa: BLE001 - the thread must go on
                return log.exception("a trace request was left as it is", extra={"trace_request": turn.request_id})

    # ── the queue, as the tables have it

    @contextmanager
    def _open(self, pool: str, *, for_all: bool = False) -> Iterator[tuple[Pool, FairOrder]]:
        """Keep others from beginning turns in the pool until the block ends, and give its order.

        It has what this process can run, or, `for_all`, what every worker of the pool can.
        """
        with self._turns.open_pool(pool, self.id, for_all=for_all) as opened:
            yield opened, order_of(opened.state, self._quick_slots, self._long_after_s)
            self._views[pool].note_workers(opened.state)

    def _make_room(self, pool: str) -> None:
        """Have those turns give way for which others wait that have precedence."""
        if pool not in self._views:
            return
        # For what only some can run, one that cannot would give way in vain.
        with self._open(pool, for_all=True) as (opened, order):
            due = [turn for turn in order.idle_turns if order.anything_waits and turn.cancellation.reason is None]
            for turn in due:
                turn.cancellation.set("giving way")
            while (turn_to_end := order.turn_to_end()) is not None:
                turn_to_end.cancellation.set("giving way")
                due.append(turn_to_end)
            for turn in due:
                opened.give_way(turn.request_id)

    def _see(self, stored: TraceStatus) -> None:
        """Let the pool's view have a request that waits."""
        if stored.pool in self._views:
            self._views[stored.pool].put(stored)

    def _refresh(self, pool: str) -> None:
        """Read the pool's view anew, which takes longer the more waits."""

        def read() -> tuple[PoolState, Durations]:
            return self._turns.read_pool(pool), Durations(self._store.figures.durations(pool), self._limits_s)

        self._views[pool].refresh(read)

    def _take_over(self, idle: TraceStatus) -> TraceStatus:
        """Let a request that nobody asked for have its turn among the others, because somebody asks for it now."""
        asked = self._store.trace_requests.take_over(idle.tenant, idle.id)
        if idle.pool in self._views:
            with self._open(idle.pool) as (opened, _):
                opened.note_asked(idle.tenant, idle.id)
        return asked

    def _slots_of(self, pool: str) -> int:
        """Return the slots of all processes: before this one has said that it is there, at least its own."""
        view = self._views.get(pool)
        return 0 if view is None else max(view.slots, self._own_slots.get(pool, 0))

    def _newest_worker_of(self, pool: str) -> str:
        """Return the revision that the newest release of the pool's workers knows: this one may be among them."""
        view = self._views.get(pool)
        return max("" if view is None else view.newest_worker, migrations.HEAD if self._own_slots.get(pool) else "")

    # ── what others do

    def _look_again_and_again(self) -> None:
        while not self._stopping.is_set():
            self._look_now.wait(self._pace.look_s)
            self._look_now.clear()
            if not self._stopping.is_set():
                self._look()

    def _look(self) -> None:
        """Say that this process is there, queue again what others lost, and see to what others want of this one."""
        try:
            if self._own_slots:
                self._turns.note_alive(self.id, self._own_slots)
                self._noted_at = monotonic()
            self._reap()
            self._stop_turns()
            for pool in self._views:
                self._make_room(pool)
                if self._tells_positions:
                    self._refresh(pool)
        except StorageUnavailable:
            self._alive_since = None
            log.warning("the engine waits for the database")
        except Exception:
            log.exception("the engine could not look at the tables")
        for bell in self._bells.values():
            bell.ring()

    def _reap(self) -> None:
        now = monotonic()
        if self._alive_since is None:
            self._alive_since = now
        # When the database was away, all others have been silent too: they get as long as anybody else to be heard.
        is_heard = now - self._alive_since >= self._pace.silent_s
        self._turns.reap(self._attempts, silent_s=self._pace.silent_s if is_heard else None)

    def _stop_turns(self) -> None:
        """Stop what was cancelled, what has to give way, and what others queued again because this process was lost.

        End turns that no slot has: one begins without its slot if the connection is lost while the database commits.
        """
        if not self._own_slots:
            return
        with self._lock:
            running = {**self._running}
        own = self._turns.own(self.id)
        with self._lock:
            left = () if self._beginning else own.keys() - self._running.keys()
        for request_id, cancellation in running.items():
            turn = own.get(request_id)
            if turn is None:
                cancellation.set("stopping")
            elif turn.state in (State.CANCELLED, None):
                cancellation.set("cancelled")
            elif turn.gives_way:
                cancellation.set("giving way")
        for request_id in left:
            self._turns.end(request_id, self.id, self._attempts, is_fault=False)

    def _listen_again_and_again(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._turns.listen(self._own_slots) as notices:
                    self._store.changes.notify_all()  # some may have been missed
                    while not self._stopping.is_set():
                        for notice in notices.wait(_LISTEN_S):
                            self._heed(notice)
            except StorageUnavailable:
                log.warning("the engine waits for the database")
            except Exception:
                log.exception("the engine does not hear what others tell")
            self._stopping.wait(self._pause_s)

    def _heed(self, notice: Notice) -> None:
        if notice.kind == "changed":
            self._store.changes.notify([notice.subject])
        elif notice.kind == "queued":
            if notice.subject in self._bells:
                self._bells[notice.subject].ring()
        elif self._running:  # perhaps here, or for another service on the database: to see that costs little
            self._stop_turns()


class _Bell:
    """Wakes one that waits; a ring while nobody waits is kept for the next."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_rung = False
        self._is_closed = False

    def ring(self) -> None:
        with self._condition:
            self._is_rung = True
            self._condition.notify()

    def ring_all(self) -> None:
        """Let nobody wait any more."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def wait(self, within_s: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._is_rung or self._is_closed, within_s)
            self._is_rung = False
