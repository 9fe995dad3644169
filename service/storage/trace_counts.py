"""Trace counts: how the attempts and the trace requests ended that this process has worked on since it started.

They only grow, whatever retention removes from the tables.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from service.domain.trace_request import State
from service.histogram import TRACE_NS, Histogram
from service.storage.transactions import AnyRow
from tracehouse.errors import ServiceError, by_slug

RAN_EAGERLY = "eager"


class AttemptEnd(StrEnum):
    """How an attempt ended: with a result, with a problem, through a fault of the service, to be queued again, or
    because its request was cancelled."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    RELEASED = "released"
    CANCELLED = "cancelled"


class TraceCounts:
    """Counts by pool. `outcomes` has verdicts, or `eager`, `failed` or `cancelled`; `problems` the slugs of failures.

    `waited` has the nanoseconds from the submission of a request to its first attempt, and `took` those of attempts
    that ended with a result or a problem. Rows are counted once their transaction has succeeded.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts: Counter[tuple[str, AttemptEnd]] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.problems: Counter[str] = Counter()
        self.waited: dict[str, Histogram] = {}
        self.took: dict[str, Histogram] = {}

    @contextmanager
    def read(self) -> Iterator["TraceCounts"]:
        """Keep the counts as they are until the block ends."""
        with self._lock:
            yield self

    def count_claim(self, row: AnyRow) -> None:
        if row.attempt == 1 and row.started_at is not None:
            with self._lock:
                _add(self.waited, row.pool, row.started_at - row.created_at)

    def count_end(self, row: AnyRow, end: AttemptEnd, problem: str | None = None) -> None:
        """Count the end of an attempt, and that of its request if this was its last."""
        with self._lock:
            self.attempts[row.pool, end] += 1
            if end in (AttemptEnd.SUCCEEDED, AttemptEnd.FAILED) and row.started_at is not None:
                _add(self.took, row.pool, datetime.now(UTC) - row.started_at)
            if State(row.state).is_final:
                self.outcomes[row.pool, _outcome(row)] += 1
                if row.state == State.FAILED.value:
                    # A slug that no class has may be one of many.
                    self.problems[problem if problem and problem in by_slug() else ServiceError.slug()] += 1

    def count_cancelled(self, row: AnyRow) -> None:
        if row.started_at is not None:  # it ran
            self.count_end(row, AttemptEnd.CANCELLED)
            return
        with self._lock:
            self.outcomes[row.pool, _outcome(row)] += 1


def _outcome(row: AnyRow) -> str:
    if row.state != State.SUCCEEDED.value:
        return str(row.state)
    return RAN_EAGERLY if row.verdict is None else str(row.verdict)


def _add(by_pool: dict[str, Histogram], pool: str, time: timedelta) -> None:
    by_pool.setdefault(pool, Histogram(TRACE_NS)).add(round(time.total_seconds() * 1e9))
