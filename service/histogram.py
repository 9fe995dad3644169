"""Histograms: how many of the values that were seen are no greater than each of some bounds, and their sum."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """To add a value costs some tenths of a microsecond. One thread adds at a time; any may read meanwhile."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        """`bounds` rise. Beyond the last one there is room for all other values."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def add(self, value: int) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


# Nanoseconds. A small answer takes a quarter of a millisecond, and the slowest may take INFER_TIMEOUT_S.
ANSWER_NS = [
    250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000, 250_000_000,
    500_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000, 30_000_000_000, 60_000_000_000,
]  # fmt: skip
# A trace takes a second at least, and some have half an hour.
TRACE_NS = [second * 1_000_000_000 for second in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)]
BATCH_CALLS = [1, 2, 4, 8, 16, 32, 64, 128]
