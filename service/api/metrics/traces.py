"""The metrics of trace requests: their queues, how attempts and requests ended, and how long that took."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from service.api.metrics.families import counters, gauges, histograms
from service.api.metrics.snapshot import ProcessSnapshot
from service.domain.trace_request import State
from service.storage.figures import PoolQueue, StoredFigures
from service.storage.trace_counts import RAN_EAGERLY, AttemptEnd
from tracehouse.errors import TraceError, by_slug
from tracehouse.findings.verdict import Verdict

_POOL = ["pool"]
_OUTCOMES = [*(verdict.value for verdict in Verdict), RAN_EAGERLY, State.FAILED.value, State.CANCELLED.value]


def trace_metrics(taken: ProcessSnapshot) -> Iterator[Metric]:
    slots = taken.context.engine.slots
    by_pool = [((pool,), count) for pool, count in slots.items()]
    yield gauges("tracehouse_trace_slots", "Trace requests that may run at the same time.", _POOL, by_pool)
    if taken.watched.stored is not None:
        yield from _queue_metrics([*slots], taken.watched.stored)
    with taken.context.store.trace_requests.counts.read() as counts:
        attempts = [((pool, end.value), counts.attempts[pool, end]) for pool in slots for end in AttemptEnd]
        outcomes = [((pool, end), counts.outcomes[pool, end]) for pool in slots for end in _OUTCOMES]
        problems = [
            ((slug, error.fault), counts.problems[slug])
            for slug, error in by_slug().items()
            if issubclass(error, TraceError) or slug in counts.problems
        ]
        # Written while nobody counts: a histogram changes.
        waited = histograms(
            "tracehouse_trace_queue_seconds",
            "From the submission of a trace request to its first attempt.",
            _POOL,
            [((pool,), waited) for pool, waited in counts.waited.items()],
        )
        took = histograms(
            "tracehouse_trace_duration_seconds",
            "Attempts that ended with a result or a problem.",
            _POOL,
            [((pool,), took) for pool, took in counts.took.items()],
        )
    yield counters("tracehouse_trace_attempts", "Attempts by how they ended.", ["pool", "end"], attempts)
    yield counters(
        "tracehouse_trace_requests",
        "Trace requests that have ended: by their verdict, or as eager, failed or cancelled.",
        ["pool", "outcome"],
        outcomes,
    )
    yield counters(
        "tracehouse_trace_problems", "Trace requests that have failed, by their problem.", ["code", "fault"], problems
    )
    yield waited
    yield took


def _queue_metrics(pools: list[str], stored: StoredFigures) -> Iterator[Metric]:
    queues = [((pool,), stored.queues.get(pool, PoolQueue())) for pool in dict.fromkeys([*pools, *stored.queues])]
    for name, text, values in (
        ("queue_requests", "Trace requests that wait.", [(pool, queue.waiting) for pool, queue in queues]),
        ("queue_oldest_seconds", "How long the oldest of those has waited; 0 if none waits.",
         [(pool, queue.oldest_s) for pool, queue in queues]),
        ("running_requests", "Trace requests that run.", [(pool, queue.running) for pool, queue in queues]),
    ):  # fmt: skip
        yield gauges(f"tracehouse_trace_{name}", text, _POOL, values)
