"""Request rate: how often each key may ask. Kept in memory, so that a new start has forgotten it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a key has left. `retry_after_s` is set for a request that came too early."""

    per_minute: int
    remaining: int
    reset_s: int
    retry_after_s: int | None

    @property
    def headers(self) -> dict[str, str]:
        """As draft-ietf-httpapi-ratelimit-headers writes them."""
        return {
            "RateLimit-Policy": f'"minute";q={self.per_minute};w={WINDOW_S}',
            "RateLimit": f'"minute";r={self.remaining};t={self.reset_s}',
        }


class RequestRate:
    """A minute's requests may come at once; then each comes back after its share of the minute.

    The generic cell rate algorithm: of each key one moment is kept, when all that it has used up will have come back.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._whole_at: dict[str, float] = {}

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Count one more request of this key, unless it came too early."""
        now, share_s = self._clock(), WINDOW_S / per_minute
        whole_at = max(self._whole_at.get(key_id, now), now) + share_s
        early_s = whole_at - now - WINDOW_S
        if early_s > 1e-6:  # the shares of a minute do not quite add up to one
            retry_after_s = math.ceil(early_s)
            return Allowance(per_minute, 0, retry_after_s, retry_after_s)
        self._whole_at[key_id] = whole_at
        remaining = int((now + WINDOW_S - whole_at) / share_s + 1e-6)
        return Allowance(per_minute, remaining, math.ceil(whole_at - now), None)
