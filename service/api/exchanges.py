"""Exchanges: what this process has answered since it started: over HTTP by route and status, and each problem."""

from collections import Counter

from service.histogram import ANSWER_NS, Histogram
from tracehouse.errors import ServiceError

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Stands for what clients may invent: a method that HTTP has not, and a path that the service has not.
OTHER_METHOD = "_OTHER"
NO_ROUTE = ""


class Exchanges:
    """Counts by what the service has: a client that invents paths and methods adds nothing.

    Only the event loop's thread counts.
    """

    def __init__(self) -> None:
        self.durations: dict[tuple[str, str, int], Histogram] = {}  # nanoseconds by method, route and status
        self.problems: Counter[str] = Counter()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one exchange. `route` is the path as the route has it; `status` is 499 if the client left before."""
        key = (method if method in METHODS else OTHER_METHOD, route, status)
        found = self.durations.get(key)
        if found is None:
            found = self.durations[key] = Histogram(ANSWER_NS)
        found.add(int(seconds * 1e9))

    def count_problem(self, error: ServiceError) -> None:
        """Count a problem with which a request was answered, over HTTP or gRPC."""
        self.problems[error.slug()] += 1
