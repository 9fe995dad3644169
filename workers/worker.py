"""The worker: claims a trace request by its id, attempts it, and stores the outcome."""

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
    """Any number of threads may share one. The service's own faults are retried, up to `attempts` attempts."""

    def __init__(self, store: Store, zygote: Zygote, limits: TraceLimits, attempts: int) -> None:
        self._store = store
        self._zygote = zygote
        self._limits = limits
        self._attempts = attempts

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        """Attempt the request once, if it can be claimed."""
        request = self._store.trace_requests.claim(request_id)
        if request is None:
            return
        started = time.monotonic()
        attempt = Attempt(request, self._store, self._zygote, self._limits, cancellation)
        end: str
        try:
            outcome = attempt.run()
        except AttemptStopped:
            self._release(request, cancellation)
            end = cancellation.reason or "stopping"
        except ServiceError as error:
            self._store.trace_requests.retry(request.id, request.attempt, error.failure(), self._attempts)
            log.error("trace lost", extra={"trace_request": request.id, "error": error.slug(), "detail": error.detail})
            end = error.slug()
        else:
            # The fence: a claim that is no longer the newest stores nothing.
            stored = self._store.trace_requests.finish(request.id, request.attempt, outcome)
            end = _end_of(outcome) if stored else "fenced"
        log.info(
            "trace ended",
            extra={
                "trace_request": request.id,
                "attempt": request.attempt,
                "end": end,
                "seconds": round(time.monotonic() - started, 3),
                **_resources(attempt),
            },
        )

    def _release(self, request: TraceRequest, cancellation: Cancellation) -> None:
        """Put a request back that the service's end interrupts; a cancelled one has ended already."""
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


def _resources(attempt: Attempt) -> dict[str, Any]:
    """Return what the children used that ran the submitted code: processor time together, memory of the largest."""
    if not attempt.exits:
        return {}
    cpu_s = sum(end.cpu_s for end in attempt.exits)
    return {"cpu_s": round(cpu_s, 3), "maxrss_kib": max(end.maxrss_kib for end in attempt.exits)}
