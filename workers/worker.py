"""The worker: takes a trace request by its id, has it attempted, and keeps what came of it."""

import logging
import time
from typing import Any

from service.domain.outcome import NotTraced, Outcome, RanEagerly, Succeeded
from service.domain.trace_request import TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tracehouse.errors import ServiceError
from workers.attempt import Attempt
from workers.limits import TraceLimits
from workers.processes.exits import AttemptStopped

log = logging.getLogger(__name__)


class Worker:
    """Any number of threads may share one. `attempts` are the tries for faults that are the service's own."""

    def __init__(self, store: Store, zygote: Zygote, limits: TraceLimits, attempts: int) -> None:
        self._store = store
        self._zygote = zygote
        self._limits = limits
        self._attempts = attempts

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        """Attempt the request once, if it is there to be claimed."""
        request = self._store.trace_requests.claim(request_id)
        if request is None:
            return
        started = time.monotonic()
        attempt = Attempt(request, self._store, self._zygote, self._limits, cancellation)
        end: str
        try:
            outcome = attempt.run()
        except AttemptStopped:
            self._stopped(request, cancellation)
            end = cancellation.reason or "stopping"
        except ServiceError as error:
            self._store.trace_requests.retry(request.id, request.attempt, error.failure(), self._attempts)
            log.error("trace lost", extra={"trace_request": request.id, "error": error.slug(), "detail": error.detail})
            end = error.slug()
        else:
            # The fence: a claim that is no longer the newest keeps nothing.
            kept = self._store.trace_requests.finish(request.id, request.attempt, outcome)
            end = _end_of(outcome) if kept else "fenced"
        log.info(
            "trace ended",
            extra={
                "trace_request": request.id,
                "attempt": request.attempt,
                "end": end,
                "seconds": round(time.monotonic() - started, 3),
                **_used(attempt),
            },
        )

    def _stopped(self, request: TraceRequest, cancellation: Cancellation) -> None:
        """A cancelled request has its end already; one that the service's end interrupts waits for the next start."""
        if cancellation.reason == "stopping":
            self._store.trace_requests.release(request.id, request.attempt)


def _end_of(outcome: Outcome) -> str:
    match outcome:
        case Succeeded():
            return outcome.verdict.value
        case RanEagerly():
            return "ran"
        case NotTraced():
            return outcome.failure.slug


def _used(attempt: Attempt) -> dict[str, Any]:
    """By the children that ran the submitted code as the request asks: together, and by the largest of them."""
    if not attempt.exits:
        return {}
    cpu_s = sum(end.cpu_s for end in attempt.exits)
    return {"cpu_s": round(cpu_s, 3), "maxrss_kib": max(end.maxrss_kib for end in attempt.exits)}
