"""Exchanges: what this process answers, and has answered since it started: over HTTP by route, and each problem."""

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
        self.active: Counter[str] = Counter()  # by method

    def begin(self, method: str) -> None:
        """Count a request as active, until `count` or `hand_over`."""
        self.active[_known(method)] += 1

    def hand_over(self, method: str) -> None:
        """Count a request as active no longer: the app answers it, and counts it itself."""
        self.active[_known(method)] -= 1

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one that has ended. `route` is the path as the route has it; 499: the client left before."""
        method = _known(method)
        self.active[method] -= 1
        key = (method, route, status)
        found = self.durations.get(key)
        if found is None:
            found = self.durations[key] = Histogram(ANSWER_NS)
        found.add(int(seconds * 1e9))

    def count_problem(self, error: ServiceError) -> None:
        """Count a problem with which a request was answered, over HTTP or gRPC."""
        self.problems[error.slug()] += 1


def _known(method: str) -> str:
    return method if method in METHODS else OTHER_METHOD
