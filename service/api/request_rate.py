"""Request rate: how many requests a key may send. It is kept in memory, and a restart forgets it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

WINDOW_S = 60
# From so many keys on, those are forgotten that have all their requests again. Chosen.
_KEYS_MIN = 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """The requests that a key has left. `retry_after_s` is set if the request came too early."""

    per_minute: int
    remaining: int
    reset_s: int
    retry_after_s: int | None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of draft-ietf-httpapi-ratelimit-headers."""
        return {
            "RateLimit-Policy": f'"minute";q={self.per_minute};w={WINDOW_S}',
            "RateLimit": f'"minute";r={self.remaining};t={self.reset_s}',
        }


class RequestRate:
    """The generic cell rate algorithm: for each key it keeps the moment when all its requests are available again.

    All requests of a minute may come at once; each becomes available again after its share of the minute.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._whole_at: dict[str, float] = {}
        self._tidy_at = _KEYS_MIN

    @property
    def keys(self) -> int:
        """How many keys are remembered."""
        return len(self._whole_at)

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Count one more request of this key, unless it comes too early."""
        now, share_s = self._clock(), WINDOW_S / per_minute
        whole_at = max(self._whole_at.get(key_id, now), now) + share_s
        early_s = whole_at - now - WINDOW_S
        if early_s > 1e-6:  # the rounded shares of a minute do not quite add up to one
            retry_after_s = math.ceil(early_s)
            return Allowance(per_minute, 0, retry_after_s, retry_after_s)
        self._whole_at[key_id] = whole_at
        self._tidy(now)
        remaining = int((now + WINDOW_S - whole_at) / share_s + 1e-6)
        return Allowance(per_minute, remaining, math.ceil(whole_at - now), None)

    def _tidy(self, now: float) -> None:
        """Forget keys that have all their requests again: a tenant may make and revoke keys without end."""
        if len(self._whole_at) >= self._tidy_at:
            self._whole_at = {key_id: whole_at for key_id, whole_at in self._whole_at.items() if whole_at > now}
            self._tidy_at = max(_KEYS_MIN, 2 * len(self._whole_at))
