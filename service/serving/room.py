"""Room: which runners end so that another one fits into the pool's memory, and when there will be room for it.

Each tenant that uses the pool has a right to an equal share of its memory, and may have more while nobody needs it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Activity(StrEnum):
    """What a runner does. One that waits for room has no process yet: there is nothing to end."""

    WAITING = "waiting"
    LOADING = "loading"
    BUSY = "busy"
    IDLE = "idle"


_NO_ANSWER = (Activity.LOADING, Activity.IDLE)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a runner has of the pool's memory.

    It was admitted for `admitted_bytes`. Its answer is over at `free_at` at the latest; in the past, it was then. One
    that `is_pinned` stays, as far as the tenant's share of the memory goes. Of the runners that answer the same
    requests, each has a `seat`, and all but one are `is_further`.
    """

    tenant: str
    digest: str
    threads: int
    byte_size: int
    admitted_bytes: int
    free_at: float
    activity: Activity = Activity.IDLE
    is_pinned: bool = False
    seat: int = 0
    is_further: bool = False

    @property
    def key(self) -> tuple[str, str, int]:
        return self.tenant, self.digest, self.threads

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Which runner it is."""
        return *self.key, self.seat

    @property
    def has_outgrown(self) -> bool:
        return self.byte_size > self.admitted_bytes

    def activity_at(self, moment: float) -> Activity:
        """Return what it does then, if nothing else is asked of it."""
        return self.activity if self.free_at > moment else Activity.IDLE

    def is_spare_at(self, moment: float) -> bool:
        """Whether its end costs no answer, now or later: others answer the same."""
        return self.is_further and self.activity_at(moment) in _NO_ANSWER

    def may_still_end(self, chosen: "Holding") -> bool:
        """Whether it does the same as when it was chosen to end, and is still further if it was chosen for that."""
        is_same = self.activity is chosen.activity
        return is_same and (self.is_further or not chosen.is_further or self.activity not in _NO_ANSWER)


@dataclass(frozen=True, slots=True)
class Need:
    """What a tenant needs for one more runner. If it `is_first`, no other runner answers the same requests."""

    tenant: str
    byte_size: int
    is_first: bool = False
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The pool's memory, and what the runners have of it.

    A tenant uses the pool until `share_s` seconds after it asked last, `asked_at`, or had its last answer. One that has
    pinned runners has its share for these all the time.
    """

    memory_max_bytes: int
    share_s: float
    holdings: Sequence[Holding]
    asked_at: Mapping[str, float]

    def fits(self, need: Need) -> bool:
        """Whether what is needed fits in beside all that is there: `victims` would be none."""
        return self._used_bytes(need).total() <= self.memory_max_bytes

    def victims(self, need: Need, moment: float) -> list[Holding] | None:
        """Return the runners to end, those first that go first; None if there can be no room now.

        The pinned runners of a tenant that fit into its share stay, but further ones make room for the first of another
        pinned model. Of the others, only a tenant over its share loses some: one that asks for more than its share
        loses its own idle ones, and takes none from a tenant that uses the pool. Of its own it loses also those that
        are further, whatever they do: another one answers the same. The idle go first, then what only loads, then the
        busy; among equals, those that have outgrown what they were admitted for, then the least recently used. What
        needs more than all the memory is alone.

        Where all that is too little, a first runner takes the place of further ones of any tenant that do not answer.
        No runner ends to start a further one, so two models do not take the memory from each other for ever.
        """
        used_bytes = self._used_bytes(need)
        share_bytes = self.share_bytes(need, moment)
        in_use = self._tenants_in_use(need, moment)
        stay = self._stay(share_bytes, need)

        def may_end(holding: Holding) -> bool:
            if holding.place in stay:
                return False
            has_right = holding.tenant in in_use
            if has_right and used_bytes[holding.tenant] <= share_bytes:
                return False
            is_own = holding.tenant == need.tenant
            if is_own and not holding.is_further:
                return holding.activity_at(moment) is Activity.IDLE
            if not is_own and has_right and used_bytes[need.tenant] > share_bytes:
                return False
            return holding.activity_at(moment) is not Activity.WAITING

        def may_give_way(holding: Holding) -> bool:
            return need.is_first and holding.is_spare_at(moment) and holding.place not in stay

        kept = sorted(self.holdings, key=lambda holding: _turn(holding, moment))
        victims = []
        while kept and used_bytes.total() > self.memory_max_bytes:
            victim = next(filter(may_end, kept), None) or next(filter(may_give_way, kept), None)
            if victim is None:
                return None
            kept.remove(victim)
            used_bytes[victim.tenant] -= victim.byte_size
            victims.append(victim)
        return victims

    def free_at(self, need: Need, moment: float) -> float:
        """Return the first time at which there is room, if nobody asks for anything else until then."""
        if self.victims(need, moment) is not None:
            return moment
        changes = {holding.free_at for holding in self.holdings} | {*self._used_until().values()}
        times = sorted(time for time in changes if time > moment) or [moment]
        # Whatever makes room goes on making it: answers end, tenants leave, and shares grow. Pinned runners may stand
        # in the way for ever: then the last change is as good a time as any to ask again.
        found = bisect_left(times, True, key=lambda time: self.victims(need, time) is not None)
        return times[min(found, len(times) - 1)]

    def share_bytes(self, need: Need, moment: float) -> int:
        """Return the share of each tenant that uses the pool or has pinned runners, the one that asks among them."""
        pinning = {holding.tenant for holding in self.holdings if holding.is_pinned}
        return self.memory_max_bytes // len(self._tenants_in_use(need, moment) | pinning)

    def pinned_bytes(self, tenant: str) -> int:
        """Return what the tenant's pinned runners have."""
        return sum(one.byte_size for one in self.holdings if one.is_pinned and one.tenant == tenant)

    def would_stay(self, new: Holding, moment: float) -> bool:
        """Whether a pinned runner would stay, beside the others of its tenant, that has so much."""
        beside = replace(self, holdings=[*self.holdings, new])
        return new.place in beside._stay(beside.share_bytes(Need(new.tenant, new.byte_size), moment))

    def _stay(self, share_bytes: int, need: Need | None = None) -> set[tuple[str, str, int, int]]:
        """Return which pinned runners fit into their tenants' shares: the smallest first, and further ones last.

        Those that are further fit in beside what is needed, if that is the first runner of a pinned model.
        """
        stay = set()
        used_bytes = Counter[str]()
        coming = need if need is not None and need.is_first and need.is_pinned else None
        for one in sorted(self.holdings, key=lambda holding: (holding.is_further, holding.byte_size, holding.place)):
            if one.is_further and coming is not None:
                used_bytes[coming.tenant] += coming.byte_size
                coming = None
            if one.is_pinned and used_bytes[one.tenant] + one.byte_size <= share_bytes:
                used_bytes[one.tenant] += one.byte_size
                stay.add(one.place)
        return stay

    def _used_bytes(self, need: Need) -> Counter[str]:
        used_bytes = Counter({need.tenant: need.byte_size})
        for holding in self.holdings:
            used_bytes[holding.tenant] += holding.byte_size
        return used_bytes

    def _tenants_in_use(self, need: Need, moment: float) -> set[str]:
        return {need.tenant} | {tenant for tenant, until in self._used_until().items() if until > moment}

    def _used_until(self) -> dict[str, float]:
        """Return until when each tenant uses the pool."""
        last = dict(self.asked_at)
        for holding in self.holdings:
            last[holding.tenant] = max(last.get(holding.tenant, 0.0), holding.free_at)
        return {tenant: time + self.share_s for tenant, time in last.items()}


def _turn(holding: Holding, moment: float) -> tuple[int, bool, float]:
    order = [Activity.IDLE, Activity.LOADING, Activity.BUSY, Activity.WAITING]
    return order.index(holding.activity_at(moment)), not holding.has_outgrown, holding.free_at
