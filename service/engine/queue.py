"""The seam between the API and whatever runs trace requests.

The `trace_requests` table is the only truth. An engine decides the order and wakes workers; it passes on nothing but
a request's id. The embedded engine is alone on its database; any number of processes with a distributed engine share
a PostgreSQL.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from service.domain.audit import SERVICE, Actor
from service.domain.idempotency import Idempotency
from service.domain.trace_request import TraceRequest, TraceStatus
from service.sandbox.cancellation import Cancellation
from service.storage.allowances import Allowance

# Runs the trace request of this id: claims it, and finishes, retries or releases it. The engine may call this again for
# the same id; if the claim returns None, there is nothing to do.
Work = Callable[[str, Cancellation], None]


class Engine(Protocol):
    @property
    def slots(self) -> Mapping[str, int]:
        """How many requests of each pool run at the same time, in all processes."""

    def start(self) -> None:
        """Take up the requests that an earlier process left, and begin to run."""

    def refuse(
        self, request: TraceRequest, idempotency: Idempotency | None = None, *, allowance: Allowance | None = None
    ) -> None:
        """Raise what `submit` would raise now."""

    def submit(
        self,
        request: TraceRequest,
        idempotency: Idempotency | None = None,
        *,
        keep: Callable[[], object] | None = None,
        allowance: Allowance | None = None,
        by: Actor = SERVICE,
    ) -> TraceStatus:
        """Store the request: once this returns, it will end, whatever happens to this process.

        `keep` stores the request's files, which the allowance counts. It is called only when nothing refuses the
        request, and before a row names them. It may take long: of a tenant, one runs at a time, and nothing else waits.

        Returns an earlier request instead if the key was used for the same content, or if a request with the same
        content has succeeded or still may, unless the request has `force`.

        Raises IdempotencyKeyReused, QueueFull, QueueQuotaExceeded, StorageQuotaExceeded and ShuttingDown.
        """

    def waiting(self, request: TraceStatus) -> str | None:
        """Return why the queued request cannot begin; None if it only waits for its turn."""

    def position(self, request: TraceStatus) -> int | None:
        """Return the request's place in the order in which the waiting requests of its pool begin, from 1.

        It changes as others come, end and are cancelled. None if the request waits for no turn.
        """

    def expected_start(self, request: TraceStatus) -> datetime | None:
        """Return when the waiting request is expected to begin, from how long others of each budget took lately.

        None if it waits for no turn, or if too few have ended to say it.
        """

    def cancel(self, tenant: str, request_id: str, *, by: Actor = SERVICE) -> TraceStatus:
        """Cancel the request at once; what still runs of it is stopped, and its result is ignored.

        Raises TraceRequestNotFound, also if it belongs to another tenant, and TraceRequestEnded.
        """

    def stop(self, grace_s: float = 10.0) -> None:
        """Stop running requests, which are then queued again, and wait up to `grace_s` seconds for their threads."""
