"""The intake: the way of a trace request into the table, the same for every engine."""

import threading
from collections.abc import Callable

from service.domain.audit import Actor
from service.domain.errors import QueueQuotaExceeded, ShuttingDown, StorageQuotaExceeded
from service.domain.idempotency import Idempotency
from service.domain.quotas import Quotas
from service.domain.trace_request import TraceRequest, TraceStatus
from service.engine.keeping import Keeping
from service.storage.allowances import Allowance
from service.storage.database import Store


class Intake:
    """Any number of threads may use it. When `closed` is set, it refuses what is submitted."""

    def __init__(self, store: Store, queue_max: int, quotas: Quotas, closed: threading.Event) -> None:
        self._store = store
        self._queue_max = queue_max
        self._quotas = quotas
        self._closed = closed
        self._keeping = Keeping()

    def refuse(self, request: TraceRequest, idempotency: Idempotency | None, *, allowance: Allowance | None) -> None:
        """Raise what `add` would raise now."""
        if self._closed.is_set():
            raise ShuttingDown("the service is shutting down")
        self._store.trace_requests.refuse(
            request, idempotency, queue_max=self._queue_max, quotas=self._quotas, allowance=allowance
        )

    def add(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None,
        *,
        keep: Callable[[], object] | None,
        allowance: Allowance | None,
        by: Actor,
    ) -> TraceStatus:
        """Store the request and return it, or an earlier one instead, as `Engine.submit` says."""
        # Of a tenant's many that come at once, the last place in the queue is one's: the files of the others would
        # stay, and nobody would count them.
        with self._keeping.turn(request.tenant, has_files=keep is not None):
            self.refuse(request, idempotency, allowance=allowance)
            if keep is not None:
                keep()
            return self._store.trace_requests.add(
                request, idempotency, queue_max=self._queue_max, quotas=self._quotas, allowance=allowance, by=by
            )

    def add_idle(self, found: TraceRequest) -> TraceStatus | None:
        """Store what nobody asked for, and return it; None if its tenant has no room, or asked for it meanwhile."""
        assert found.continues is not None  # the only kind that nobody asks for
        try:
            stored = self._store.trace_requests.add(found, quotas=self._quotas)
        except (QueueQuotaExceeded, StorageQuotaExceeded):  # it would be found again, before those of other tenants
            self._store.further_checks.leave_out(found.tenant, found.continues)
            return None
        return stored if stored.id == found.id else None
