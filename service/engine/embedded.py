"""The embedded engine: threads of this process, and for each pool the requests that wait for one."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic

from service.domain.errors import ShuttingDown, StorageUnavailable
from service.domain.idempotency import Idempotency
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import State, TraceRequest, TraceStatus
from service.engine.fair_queue import FairQueue
from service.engine.queue import Work
from service.sandbox.cancellation import Cancellation
from service.storage.database import Store
from tracehouse.errors import TracerLost

log = logging.getLogger(__name__)


class EmbeddedEngine:
    """Runs as many requests of a pool at a time as it has slots, tenants in turn. It must be alone on its database.

    Requests of a pool without slots wait for a start with some. After an unforeseen fault, a slot waits for `pause_s`.
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
    ) -> None:
        self._store = store
        self._work = work
        self._slots = slots
        self._queue_max = queue_max
        self._attempts = attempts
        self._pause_s = pause_s
        self._quotas = quotas
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pools: dict[str, _PoolSlots] = {}
        self._running: dict[str, Cancellation] = {}

    def start(self) -> None:
        for waiting in self._store.trace_requests.recover(self._attempts):
            self._put(waiting)

    def refuse(self, request: TraceRequest, idempotency: Idempotency | None = None) -> None:
        if self._stopping.is_set():
            raise ShuttingDown("the service is shutting down")
        self._store.trace_requests.refuse(request, idempotency, queue_max=self._queue_max, quotas=self._quotas)

    def submit(self, request: TraceRequest, idempotency: Idempotency | None = None) -> TraceRequest:
        if self._stopping.is_set():
            raise ShuttingDown("the service is shutting down")
        stored = self._store.trace_requests.add(request, idempotency, queue_max=self._queue_max, quotas=self._quotas)
        if stored.id == request.id:
            self._put(stored)
        return stored

    def waiting(self, request: TraceStatus) -> str | None:
        unserved = request.state is State.QUEUED and not self._slots.get(request.pool)
        return f"no worker in pool {request.pool}" if unserved else None

    def cancel(self, tenant: str, request_id: str) -> TraceRequest:
        cancelled = self._store.trace_requests.cancel(tenant, request_id)
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

    def _put(self, waiting: TraceStatus) -> None:
        with self._lock:
            if self._stopping.is_set():
                return  # it is queued in the table, where the next start finds it
            if waiting.pool not in self._pools:
                self._pools[waiting.pool] = _PoolSlots(waiting.pool, self._slots.get(waiting.pool, 0), self._run)
            self._pools[waiting.pool].put(waiting)

    def _run(self, request_id: str) -> None:
        cancellation = Cancellation()
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
        status = requests.status_of_any_tenant(request_id)
        if status.state is State.RUNNING:
            lost = TracerLost("the worker did not end it", attempt=status.attempt)
            requests.retry(request_id, status.attempt, lost.failure(), self._attempts)
            status = requests.status_of_any_tenant(request_id)
        if status.state is State.QUEUED:
            self._put(status)


class _PoolSlots:
    """One pool's waiting requests, and the threads that take them, tenants in turn."""

    def __init__(self, pool: str, slots: int, run: Callable[[str], None]) -> None:
        self._run = run
        self._waiting = FairQueue()
        self._threads = [
            threading.Thread(target=self._take, name=f"{pool} {slot}", daemon=True) for slot in range(slots)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, waiting: TraceStatus) -> None:
        self._waiting.put(waiting)

    def remove(self, cancelled: TraceStatus) -> None:
        self._waiting.remove(cancelled.tenant, cancelled.id)

    def close(self) -> None:
        """End each thread after the request that it runs."""
        self._waiting.close()

    def join(self, until: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def _take(self) -> None:
        while (turn := self._waiting.take()) is not None:
            try:
                self._run(turn.request_id)
            except Exception:  # a thread that ended would be missing until the next start
                log.exception("a slot's work raised", extra={"trace_request": turn.request_id})
            finally:
                self._waiting.done(turn)
