"""Statistics: how many requests each version of a model was asked, and how long they took.

They are kept in memory since the service started. Source of the names: the protocol's "statistics extension".
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# Model versions whose statistics are kept, those that were asked last. Chosen: each has some hundred bytes.
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


@dataclass(slots=True)
class VersionStatistics:
    """What one version was asked. Requests that were not answered count as failures, refused ones too.

    `input` is the time for the contract, `queue` that in which a request waits for its turn or for a process that
    starts, and `infer` the time from there to the answer. `inferences` counts rows where a contract says that rows are
    independent, and requests elsewhere; `executions` counts the calls of the artifact, of which one may answer several.
    """

    success: Duration = field(default_factory=Duration)
    failure: Duration = field(default_factory=Duration)
    input: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    inferences: int = 0
    executions: int = 0
    last_inference_ms: int = 0


class Statistics:
    """The statistics of all versions that were asked."""

    def __init__(self) -> None:
        self._versions: dict[VersionKey, VersionStatistics] = {}

    def of(self, key: VersionKey) -> VersionStatistics:
        """Return the statistics of a version; they are empty if it was not asked."""
        return self._versions.get(key, VersionStatistics())

    @contextmanager
    def measure(self, key: VersionKey) -> "Iterator[VersionStatistics]":
        """Count one request, which fails if the block raises."""
        found = self._find(key)
        began = time.perf_counter_ns()
        try:
            yield found
        except BaseException:
            found.failure.add(time.perf_counter_ns() - began)
            raise
        _count_success(found, time.perf_counter_ns() - began)

    def count_success(self, key: VersionKey, ns: int) -> VersionStatistics:
        """Count one request that was answered, and return what is to be said of it beside that."""
        found = self._find(key)
        _count_success(found, ns)
        return found

    def _find(self, key: VersionKey) -> VersionStatistics:
        found = self._versions.pop(key, None) or VersionStatistics()
        self._versions[key] = found
        if len(self._versions) > _KEPT_MAX:
            del self._versions[next(iter(self._versions))]
        return found


def _count_success(found: VersionStatistics, ns: int) -> None:
    found.success.add(ns)
    found.last_inference_ms = time.time_ns() // 1_000_000


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
