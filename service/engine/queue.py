"""The seam between the API and whatever runs trace requests.

The `trace_requests` table is the only truth. An engine decides order and wakes workers; all that it is told, and all
that it hands on, is a request's id. The embedded engine stands here now; one on PostgreSQL fits the same seam.
"""

from collections.abc import Callable
from typing import Protocol

from service.domain.idempotency import Idempotency
from service.domain.trace_request import TraceRequest, TraceStatus
from service.sandbox.cancellation import Cancellation

# Run the trace request of this id: claim it, and finish, retry or release it. The engine may call this again for the
# same id; a claim that gives nothing means that there is nothing to do.
Work = Callable[[str, Cancellation], None]


class Engine(Protocol):
    def start(self) -> None:
        """Take up what an earlier process left, and begin to run."""

    def refuse(self, request: TraceRequest, idempotency: Idempotency | None = None) -> None:
        """Raise what `submit` would raise now: ask before the request's files are kept."""

    def submit(self, request: TraceRequest, idempotency: Idempotency | None = None) -> TraceRequest:
        """Once this returns, the request reaches an end whatever happens to this process.

        Returns the earlier request if the key was used for the same content, or if that content has succeeded or still
        may and the request has no `force`. Raises IdempotencyKeyReused, QueueFull, QueueQuotaExceeded,
        StorageQuotaExceeded and ShuttingDown.
        """

    def waiting(self, request: TraceStatus) -> str | None:
        """Why the queued request will not begin as things are; None where nothing but its turn keeps it."""

    def cancel(self, tenant: str, request_id: str) -> TraceRequest:
        """Cancelled at once, also where it runs: what is still running of it is stopped and counts no more.

        Raises TraceRequestNotFound, also for another tenant's, and TraceRequestEnded.
        """

    def stop(self, grace_s: float = 10.0) -> None:
        """Stop running requests, which are queued again, and wait up to `grace_s` for their threads."""
