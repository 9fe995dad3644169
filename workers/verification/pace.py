"""Pace: how much processor time a call takes by the size of its inputs, and whether there is that much for another."""

import math

from tracehouse.differential.budget import Budget

# A size with so many times the bytes of the last one can be told from it.
_STEP = 8
# Between a cost that grows linearly with the bytes, and one that grows by their square.
_GROWTH_EXPONENT = 1.5


class Pace:
    """Estimates a call's processor time from the last one's, and from the quickest, which is overhead at every size."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._last: tuple[int, float] | None = None  # bytes and seconds
        self._quickest_s = float("inf")

    def record(self, byte_size: int, seconds: float) -> None:
        self._last = byte_size, seconds
        self._quickest_s = min(self._quickest_s, seconds)

    @property
    def reach_bytes(self) -> int | None:
        """The largest inputs whose time can be told from the last call's; None before the first call."""
        return None if self._last is None else _STEP * self._last[0]

    def has_time_for(self, byte_size: int, within_s: float = math.inf) -> bool:
        """Whether the budget has the time, and the call takes at most `within_s` seconds."""
        if self._budget.is_spent or self._last is None:
            return not self._budget.is_spent
        bytes_before, seconds = self._last
        growth = byte_size / max(1, bytes_before)
        # The exponents are such that the estimate is rather too long: a call of fewer bytes is quicker by these alone.
        grown_s = (seconds - self._quickest_s) * (growth**_GROWTH_EXPONENT if growth > 1 else growth)
        return bool(self._quickest_s + grown_s <= min(within_s, self._budget.left_s))
