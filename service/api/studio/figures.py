"""Figures: what a version of a model was asked since the service started, for a person."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from service.histogram import Histogram
from service.serving.runner import RunnerState
from service.serving.statistics import FailureReason, VersionStatistics

_REASONS = {
    FailureReason.REJECTED: "no room",
    FailureReason.CANCELED: "the client left",
    FailureReason.BACKEND: "the model failed",
    FailureReason.OTHER: "refused by the contract, or for another reason",
}
_STATES = {
    RunnerState.STARTING: "loads the model",
    RunnerState.READY: "ready",
    RunnerState.BUSY: "answers",
    RunnerState.DRAINING: "ends",
    RunnerState.GONE: "none: one starts with the next request",
}
_MS = 1_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class Figures:
    """`times` are of requests that were answered. `runners` say for each device, or bucket, what its process does."""

    answered: int
    failed: list[tuple[str, int]]
    waiting: int
    times: list[tuple[str, str]]
    executions: int
    last: datetime | None
    runners: list[tuple[str, str]]

    @classmethod
    def of(cls, counted: VersionStatistics, runners: Sequence[tuple[str, RunnerState]]) -> Self:
        """Only the event loop's thread may call this."""
        return cls(
            answered=counted.success.count,
            failed=[(_REASONS[reason], count) for reason, count in counted.failures.items()],
            waiting=counted.waiting,
            times=_times(counted),
            executions=counted.executions,
            last=datetime.fromtimestamp(counted.last_inference_ms / 1000, UTC) if counted.last_inference_ms else None,
            runners=[(name, _STATES[state]) for name, state in runners],
        )


def _times(counted: VersionStatistics) -> list[tuple[str, str]]:
    if not counted.success.count:
        return []
    mean = counted.success.ns / counted.success.count / _MS
    return [
        ("mean", f"{mean:.3g} ms" if mean < 1000 else f"{mean / 1000:.3g} s"),
        ("p50", _quantile(counted.answers, 0.5)),
        ("p99", _quantile(counted.answers, 0.99)),
    ]


def _quantile(times: Histogram, part: float) -> str:
    """Return the bound under which this part of the answers came: a histogram does not know more."""
    needed, seen = part * sum(times.counts), 0
    for bound, count in zip(times.bounds, times.counts, strict=False):
        seen += count
        if seen >= needed:
            return f"at most {_format(bound)}"
    return f"more than {_format(times.bounds[-1])}"


def _format(ns: int) -> str:
    return f"{ns / _MS:g} ms" if ns < 1000 * _MS else f"{ns / (1000 * _MS):g} s"
