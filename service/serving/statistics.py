"""Statistics: how many requests each version of a model was asked, and how long they took.

They are kept in memory since the service started. Source of the names: the protocol's "statistics extension".
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.errors import Unavailable
from service.histogram import ANSWER_NS, Histogram
from service.serving.pending_call import CallLeft
from tracehouse.errors import InferenceError

# Model versions whose statistics are kept, those that were asked last. Chosen: each has about a kilobyte.
_KEPT_MAX = 10_000

# A tenant, a model's name, and the number of a version.
VersionKey = tuple[str, str, int]


@dataclass(slots=True)
class Duration:
    """How often something was done, and the nanoseconds that it took together."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns


class FailureReason(StrEnum):
    """Why a request was not answered, in Triton's words: there was no room, its client left, the model failed, or else.

    What the contract refuses is among the others, as it is with Triton.
    """

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"

    @classmethod
    def of(cls, error: BaseException) -> "FailureReason":
        if isinstance(error, Unavailable):
            return cls.REJECTED
        if isinstance(error, asyncio.CancelledError | CallLeft):
            return cls.CANCELED
        return cls.BACKEND if isinstance(error, InferenceError) else cls.OTHER


@dataclass(slots=True)
class VersionStatistics:
    """What one version was asked. Requests that were not answered count as failures, refused ones too.

    `input` is the time for the contract, `queue` that in which a request waits for its turn or for a process that
    starts, and `infer` the time from there to the answer. `inferences` counts rows where a contract says that rows are
    independent, and requests elsewhere; `executions` counts the calls of the artifact, of which one may answer several.
    `waiting` requests have not been sent to a process yet. `answers` has the times of those that were answered, as
    `success` has.
    """

    success: Duration = field(default_factory=Duration)
    failure: Duration = field(default_factory=Duration)
    input: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    inferences: int = 0
    executions: int = 0
    last_inference_ms: int = 0
    waiting: int = 0
    failures: dict[FailureReason, int] = field(default_factory=dict)
    answers: Histogram = field(default_factory=lambda: Histogram(ANSWER_NS))

    def succeed(self, ns: int) -> None:
        """Count a request that was answered."""
        self.success.add(ns)
        self.answers.add(ns)
        self.last_inference_ms = time.time_ns() // 1_000_000

    def fail(self, error: BaseException, ns: int) -> None:
        """Count a request that was not answered."""
        self.failure.add(ns)
        reason = FailureReason.of(error)
        self.failures[reason] = self.failures.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How many requests have ended: those that were answered, and the others by their reasons."""

    success: int
    failures: dict[FailureReason, int]


class Statistics:
    """The statistics of all versions that were asked. `queues` has the nanoseconds for which requests waited, all."""

    def __init__(self) -> None:
        self._versions: dict[VersionKey, VersionStatistics] = {}
        self._forgotten_success = 0
        self._forgotten_failures = dict.fromkeys(FailureReason, 0)
        self.queues = Histogram(ANSWER_NS)

    def of(self, key: VersionKey) -> VersionStatistics:
        """Return the statistics of a version; they are empty if it was not asked."""
        return self._versions.get(key, VersionStatistics())

    def all(self) -> list[tuple[VersionKey, VersionStatistics]]:
        """Return those of all versions, the last asked at the end."""
        return [*self._versions.items()]

    def ended(self) -> Ended:
        """Return how many requests have ended, also those of versions whose statistics are not kept any more."""
        success, failures = self._forgotten_success, dict(self._forgotten_failures)
        for _, counted in self.all():
            success += counted.success.count
            for reason, count in [*counted.failures.items()]:
                failures[reason] += count
        return Ended(success, failures)

    @contextmanager
    def measure(self, key: VersionKey) -> "Iterator[VersionStatistics]":
        """Count one request, which fails if the block raises."""
        found = self.find(key)
        began = time.perf_counter_ns()
        try:
            yield found
        except BaseException as error:
            found.fail(error, time.perf_counter_ns() - began)
            raise
        found.succeed(time.perf_counter_ns() - began)

    def find(self, key: VersionKey) -> VersionStatistics:
        """Return the statistics of a version that is asked now, to count in."""
        found = self._versions.pop(key, None) or VersionStatistics()
        self._versions[key] = found
        if len(self._versions) > _KEPT_MAX:
            self._forget(self._versions.pop(next(iter(self._versions))))
        return found

    def _forget(self, counted: VersionStatistics) -> None:
        self._forgotten_success += counted.success.count
        for reason, count in counted.failures.items():
            self._forgotten_failures[reason] += count


class Stopwatch:
    """Nanoseconds between one call of `lap` and the next; the first lap begins when it is made, as `whole_ns` does."""

    def __init__(self) -> None:
        self._at = self._began = time.perf_counter_ns()

    @property
    def whole_ns(self) -> int:
        return time.perf_counter_ns() - self._began

    def lap(self) -> int:
        at, self._at = self._at, time.perf_counter_ns()
        return self._at - at
