"""The worker: claims a trace request by its id, attempts it, and stores the outcome."""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import SpanKind

from service import telemetry
from service.domain.errors import FilesUnavailable, TraceRequestNotFound
from service.domain.outcome import NotTraced, Outcome, RanEagerly, Succeeded
from service.domain.quotas import NO_QUOTAS, Quotas
from service.domain.trace_request import TraceRequest
from service.environments.environments import Environments
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.signing.signer import Signer
from service.storage.allowances import Allowance
from service.storage.database import Store
from service.storage.transactions import is_lost
from tracehouse.errors import ServiceError
from tracehouse.step_times import StepTime
from workers.attempt import Attempt, AttemptTimes
from workers.attempt_record import StoredRecord
from workers.limits import TraceLimits
from workers.processes.exits import AttemptStopped

_FILES_POLL_S = 1.0

log = logging.getLogger(__name__)


class Worker:
    """Runs attempts; any number of threads may share it. The service's own faults are retried, `attempts` in all.

    Without a `signer`, artifacts are stored unsigned.
    """

    def __init__(
        self,
        store: Store,
        zygote: Zygote,
        environments: Environments,
        limits: TraceLimits,
        attempts: int,
        quotas: Quotas = NO_QUOTAS,
        signer: Signer | None = None,
    ) -> None:
        self._store = store
        self._zygote = zygote
        self._environments = environments
        self._limits = limits
        self._attempts = attempts
        self._quotas = quotas
        self._signer = signer

    def run(self, request_id: str, cancellation: Cancellation) -> None:
        """Attempt the request once, if it can be claimed."""
        request = self._store.trace_requests.claim(request_id)
        if request is None:
            return
        try:
            # Open until the rows are stored that count what the attempt leaves.
            with (
                self._store.allowances.open(request.tenant, self._quotas) as allowance,
                telemetry.span(
                    "trace", _describe(request), parent=request.trace_context, kind=SpanKind.CONSUMER
                ) as span,
            ):
                if request.attempt == 1:
                    telemetry.note_span("queue", telemetry.nanoseconds(request.created_at), time.time_ns())
                steps = telemetry.Steps(span)
                try:
                    end = self._attempt(request, cancellation, allowance, steps)
                finally:
                    steps.end()
                span.set_attribute("tracehouse.end", end)
        except FilesUnavailable as error:
            self._wait_for_files(request, cancellation, error)

    def _attempt(
        self, request: TraceRequest, cancellation: Cancellation, allowance: Allowance, steps: telemetry.Steps
    ) -> str:
        """Attempt the request, and return how that ended."""
        started = time.monotonic()
        record = StoredRecord(request, self._store, allowance, steps)
        attempt = Attempt(
            request, record, self._zygote, self._environments, self._limits, cancellation, store=self._store
        )
        end, stored = "", False
        try:
            outcome = attempt.run()
        except AttemptStopped:
            self._release(request, cancellation)
            end = cancellation.reason or "stopping"
        except TraceRequestNotFound:  # it was cancelled, and then deleted, while its processes were being stopped
            end = "deleted"
        except FilesUnavailable:
            raise
        except ServiceError as error:
            if is_lost(error):  # the database was restarted, for example, and may be back already: nobody's fault
                self._release(request, cancellation)
            else:
                self._store.trace_requests.retry(request.id, request.attempt, error.failure(), self._attempts)
            log.error("trace lost", extra={"trace_request": request.id, "error": error.slug(), "detail": error.detail})
            end = error.slug()
        else:
            if isinstance(outcome, Succeeded) and self._signer is not None:
                outcome = outcome.signed(self._signer.sign)
            # The fence: a claim that is no longer the newest stores nothing.
            stored = self._store.trace_requests.finish(request.id, request.attempt, outcome)
            end = _name_end(outcome) if stored else "fenced"
            stored = stored and not isinstance(outcome, NotTraced)
        finally:
            if allowance.kept_bytes and not stored:  # blobs that no row names
                self._store.trace_requests.charge(request.id, allowance.kept_bytes)
        log.info(
            "trace ended",
            extra={
                "trace_request": request.id,
                "attempt": request.attempt,
                "end": end,
                "seconds": round(time.monotonic() - started, 3),
                **_sum_resources(attempt),
                **_describe_times(attempt.times),
            },
        )
        return end

    def _wait_for_files(self, request: TraceRequest, cancellation: Cancellation, error: FilesUnavailable) -> None:
        """Wait until the files can be reached, and put the request back in the queue: nobody's fault.

        If they can be reached at once, something else is wrong, which counts as a fault.
        """
        log.warning("a trace request waits for the files", extra={"trace_request": request.id, "detail": error.detail})
        stopped = threading.Event()
        has_waited = False
        with cancellation.calls(stopped.set):
            while not stopped.is_set() and not self._reaches_files():
                has_waited = True
                stopped.wait(_FILES_POLL_S)
        if has_waited or stopped.is_set():
            self._release(request, cancellation)
        else:
            self._store.trace_requests.retry(request.id, request.attempt, error.failure(), self._attempts)

    def _reaches_files(self) -> bool:
        try:
            self._store.blobs.ping()
        except FilesUnavailable:
            return False
        return True

    def _release(self, request: TraceRequest, cancellation: Cancellation) -> None:
        """Put the request back in the queue unless it was cancelled, and has ended already."""
        if cancellation.reason != "cancelled":
            self._store.trace_requests.release(request.id, request.attempt)


def _name_end(outcome: Outcome) -> str:
    match outcome:
        case Succeeded():
            return outcome.verdict.value
        case RanEagerly():
            return "ran"
        case NotTraced():
            return outcome.failure.slug


def _describe(request: TraceRequest) -> telemetry.Attributes:
    """Return what the span of an attempt says of its request."""
    return {
        "tracehouse.trace_request": request.id,
        "tracehouse.attempt": request.attempt,
        "tracehouse.pool": request.pool,
        "tracehouse.tenant": request.tenant,
        "tracehouse.model": request.spec.model,
    }


def _sum_resources(attempt: Attempt) -> dict[str, Any]:
    """Return what the attempt's children used: the sum of their processor time, and the largest memory of any."""
    if not attempt.exits:
        return {}
    cpu_s = sum(one.cpu_s for one in attempt.exits)
    return {"cpu_s": round(cpu_s, 3), "maxrss_kib": max(one.maxrss_kib for one in attempt.exits)}


def _describe_times(times: AttemptTimes) -> dict[str, Any]:
    """Return the seconds of each step by the clock, and each program's processor time."""
    return {
        "steps": _seconds_of(times.steps),
        "tracer_steps": _seconds_of(times.tracer_steps),
        "processes_cpu_s": {name: round(seconds, 3) for name, seconds in times.processor_s.items()},
    }


def _seconds_of(steps: Sequence[StepTime]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for one in steps:
        seconds[one.name] = round(seconds.get(one.name, 0.0) + one.seconds, 4)
    return seconds
