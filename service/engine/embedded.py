"""The embedded engine: threads of this process, and for each pool the requests that wait for one."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf
from time import monotonic
from types import MappingProxyType

from service.domain.audit import SERVICE, Actor
from service.domain.errors import StorageUnavailable, TraceRequestNotFound
from service.domain.idempotency import Idempotency
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import State, TraceRequest, TraceStatus
from service.engine.cannot_begin import cannot_begin
from service.engine.expected_start import Durations
from service.engine.fair_order import Turn
from service.engine.fair_queue import FairQueue
from service.engine.further_check import FindIdle
from service.engine.intake import Intake
from service.engine.queue import Work
from service.sandbox.cancellation import Cancellation
from service.storage.allowances import Allowance
from service.storage.database import Store
from tracehouse.errors import TracerLost
from tracehouse.spec.trace_spec import BudgetName

_LOOK_S = 1.0  # after which a pool looks again whether a turn has become a long one

log = logging.getLogger(__name__)


class EmbeddedEngine:
    """Runs as many requests of a pool at a time as it has slots, tenants in turn. It must be alone on its database.

    Requests of a pool without slots wait for a start with some. After an unforeseen fault, a slot waits for `pause_s`.

    A running request is stopped and queued again if it has to give way to a tenant that runs nothing: see FairOrder.

    If nothing waits for a pool during `idle_after_s`, one of its slots runs what `find_idle` gives it: one such request
    at a time, which is stopped and queued again as soon as anything else waits for the pool.

    `limits_s` are the seconds that a request of each budget may take. Of the slots of a pool, `quick_slots` are kept
    for those with the budget `quick`.
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
        limits_s: Mapping[BudgetName, float] = MappingProxyType({}),
        quick_slots: int = 0,
    ) -> None:
        self._quick_slots = quick_slots
        self._limits_s = limits_s
        self._durations: dict[str, Mapping[BudgetName, Sequence[float]]] = {}  # by pools
        self._find_idle = find_idle
        self._idle_after_s = None if find_idle is None else idle_after_s
        self._idle = threading.Lock()  # held while a slot runs what nobody asked for
        self._idle_waiting: dict[str, list[TraceStatus]] = {}  # by pools: those that gave way
        self._store = store
        self._work = work
        self.slots = slots
        self._attempts = attempts
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._intake = Intake(store, queue_max, quotas, self._stopping)
        self._pools: dict[str, _PoolSlots] = {}
        self._running: dict[str, Cancellation] = {}

    def start(self) -> None:
        for pool in self.slots:
            self._measure(pool)
        for waiting in self._store.trace_requests.recover(self._attempts):
            if waiting.is_idle and self._find_idle is None:  # the operator does not like it any more
                self._store.trace_requests.cancel(waiting.tenant, waiting.id)
            else:
                self._put(waiting)
        if self._find_idle is not None:
            with self._lock:
                for pool in self.slots:
                    self._open_pool(pool)

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
        if stored.id == request.id:
            self._put(stored)
        elif stored.is_idle and not stored.state.is_final:
            stored = self._take_over(stored)
        return stored

    def waiting(self, request: TraceStatus) -> str | None:
        return cannot_begin(request, self.slots.get(request.pool, 0))

    def position(self, request: TraceStatus) -> int | None:
        with self._lock:
            pool = self._pools.get(request.pool)
        return None if pool is None else pool.position(request)

    def expected_start(self, request: TraceStatus) -> datetime | None:
        with self._lock:
            pool = self._pools.get(request.pool)
        durations = Durations(self._durations.get(request.pool, {}), self._limits_s)
        return None if pool is None else pool.expected_start(request, durations)

    def cancel(self, tenant: str, request_id: str, *, by: Actor = SERVICE) -> TraceStatus:
        cancelled = self._store.trace_requests.cancel(tenant, request_id, by=by)
        with self._lock:
            cancellation = self._running.get(request_id)
            pool = self._pools.get(cancelled.pool)
        if pool is not None:
            pool.remove(cancelled)
        # If it is not running, a later claim finds it cancelled.
        if cancellation is not None:
            cancellation.set("cancelled")
        return cancelled

    def stop(self, grace_s: float = 10.0) -> None:
        with self._lock:
            self._stopping.set()
            running = [*self._running.values()]
            pools = [*self._pools.values()]
        for pool in pools:
            pool.close()
        for cancellation in running:
            cancellation.set("stopping")
        until = monotonic() + grace_s
        for pool in pools:
            pool.join(until)

    def _measure(self, pool: str) -> None:
        """See how long requests took lately."""
        self._durations[pool] = self._store.figures.durations(pool)

    def _put(self, waiting: TraceStatus) -> None:
        with self._lock:
            if self._stopping.is_set():
                return  # it is queued in the table, where the next start finds it
            pool = self._open_pool(waiting.pool)
            if waiting.is_idle:
                self._idle_waiting.setdefault(waiting.pool, []).append(waiting)
            else:
                pool.put(waiting)

    def _open_pool(self, name: str) -> "_PoolSlots":
        """Return the pool's slots, which begin to run with the first call. The lock is held."""
        if name not in self._pools:
            waiting = FairQueue(self.slots.get(name, 0), self._quick_slots, self._limits_s.get("quick", inf))
            run_idle = partial(self._run_idle, name)
            self._pools[name] = _PoolSlots(
                name, self.slots.get(name, 0), waiting, self._run, run_idle, self._idle_after_s
            )
        return self._pools[name]

    def _run_idle(self, pool: str) -> None:
        """Run a request that nobody asked for, if there is one, and no other slot runs one."""
        if not self._idle.acquire(blocking=False):
            return
        try:
            found = self._next_idle(pool)
            if found is not None:
                with self._lock:
                    slots = self._pools[pool]
                slots.run_idle_turn(Turn(found.tenant, found.id))
        finally:
            self._idle.release()

    def _next_idle(self, pool: str) -> TraceStatus | None:
        """Return a request that gave way before, or a new one, which is stored; None if there is none."""
        with self._lock:
            waiting = self._idle_waiting.get(pool)
            if waiting:
                return waiting.pop(0)
        found = None if self._find_idle is None else self._find_idle(pool)
        return None if found is None else self._intake.add_idle(found)

    def _take_over(self, idle: TraceStatus) -> TraceStatus:
        """Let a request that nobody asked for have its turn among the others, because somebody asks for it now."""
        asked = self._store.trace_requests.take_over(idle.tenant, idle.id)
        with self._lock:
            pool = self._open_pool(idle.pool)
            waiting = self._idle_waiting.get(idle.pool, [])
            gave_way = [one for one in waiting if one.id == idle.id]
            for one in gave_way:
                waiting.remove(one)
                pool.put(asked)
            pool.take_over(idle.id)
        return asked

    def _run(self, turn: Turn) -> None:
        request_id, cancellation = turn.request_id, turn.cancellation
        with self._lock:
            if self._stopping.is_set():
                return
            self._running[request_id] = cancellation
        try:
            self._work(request_id, cancellation)
        except Exception:
            log.exception("the worker raised", extra={"trace_request": request_id})
            # A full disk, for example, stays full for a while, and the request is the first of its tenant again.
            self._stopping.wait(self._pause_s)
        finally:
            with self._lock:
                del self._running[request_id]
        self._settle(request_id)

    def _settle(self, request_id: str) -> None:
        """See to it that a request whose work is over does not count as running; put it back if it is queued again.

        Whatever goes wrong with this request, the slot goes on with the next.
        """
        while True:
            try:
                return self._put_back(request_id)
            except StorageUnavailable:
                log.exception("a trace request could not be settled", extra={"trace_request": request_id})
                if self._stopping.wait(self._pause_s):
                    return None  # the next start finds it running, and recovers it
            except Exception:  # noqa: BLE001 - the thread must go on
                return log.exception("a trace request was left as it is", extra={"trace_request": request_id})

    def _put_back(self, request_id: str) -> None:
        requests = self._store.trace_requests
        try:
            status = requests.status_of_any_tenant(request_id)
        except TraceRequestNotFound:  # it was cancelled, and then deleted
            return
        if status.state is State.RUNNING:
            lost = TracerLost("the worker did not end it", attempt=status.attempt)
            requests.retry(request_id, status.attempt, lost.failure(), self._attempts)
            status = requests.status_of_any_tenant(request_id)
        if status.state is State.QUEUED:
            self._put(status)
        elif status.state.is_final:
            self._measure(status.pool)


class _PoolSlots:
    """One pool's waiting requests, and the threads that take them, tenants in turn.

    A thread for which nothing waits during `idle_after_s` calls `run_idle`; None: it waits for ever.
    """

    def __init__(
        self,
        pool: str,
        slots: int,
        waiting: FairQueue,
        run: Callable[[Turn], None],
        run_idle: Callable[[], None],
        idle_after_s: float | None,
    ) -> None:
        self._run = run
        self._run_idle = run_idle
        self._idle_after_s = idle_after_s
        self._waiting = waiting
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._take, name=f"{pool} {slot}", daemon=True) for slot in range(slots)
        ]
        looking = threading.Thread(target=self._look_again_and_again, name=f"{pool} looks", daemon=True)
        for thread in (*self._threads, looking):
            thread.start()

    def put(self, waiting: TraceStatus) -> None:
        self._waiting.put(waiting)

    def remove(self, cancelled: TraceStatus) -> None:
        self._waiting.remove(cancelled)

    def position(self, request: TraceStatus) -> int | None:
        """Return the request's place in the order of turns, from 1; None if it waits for none."""
        return self._waiting.position(request) if self._threads else None

    def run_idle_turn(self, turn: Turn) -> None:
        """Run, on one of the pool's threads, what nobody asked for."""
        self._waiting.begin_idle(turn)
        self._run_turn(turn)

    def take_over(self, request_id: str) -> None:
        """Let the request that nobody asked for, if it runs, be its tenant's."""
        self._waiting.take_over(request_id)

    def expected_start(self, request: TraceStatus, durations: Durations) -> datetime | None:
        return self._waiting.expected_start(request, durations) if self._threads else None

    def close(self) -> None:
        """End each thread after the request that it runs."""
        self._closing.set()
        self._waiting.close()

    def join(self, until: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def _look_again_and_again(self) -> None:
        while not self._closing.wait(_LOOK_S):
            self._waiting.end_long_turn()

    def _take(self) -> None:
        while (turn := self._next_turn()) is not None:
            self._run_turn(turn)

    def _run_turn(self, turn: Turn) -> None:
        try:
            self._run(turn)
        except Exception:  # a thread that ended would be missing until the next start
            log.exception("a slot's work raised", extra={"trace_request": turn.request_id})
        finally:
            self._waiting.done(turn)

    def _next_turn(self) -> Turn | None:
        """Wait for the next turn, and do what nobody asked for meanwhile; None as soon as the pool is closed."""
        while True:
            try:
                return self._waiting.take(self._idle_after_s)
            except TimeoutError:
                pass
            try:
                self._run_idle()
            except Exception:
                log.exception("an idle slot's work raised")
