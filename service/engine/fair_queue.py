"""The fair queue: the trace requests that wait for a slot of one pool, which is next, and which has to give way."""

import threading
from bisect import bisect_left, insort
from collections import defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count

from service.domain.trace_request import TraceStatus
from service.sandbox.cancellation import Cancellation


@dataclass(frozen=True)
class Turn:
    """A request that has a slot, until `done`. If the cancellation is set, it is to end soon, and be queued again."""

    tenant: str
    request_id: str
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False, repr=False)


class FairQueue:
    """Next is the tenant that runs the fewest requests; among equals, the one whose turn was longest ago.

    Of a tenant, the oldest request is next. A tenant that is alone may have every slot. But a tenant that runs nothing
    does not wait for one that runs several: if no slot is free, the youngest turn of the tenant that runs the most has
    to give way. The oldest turn of a tenant never has to, so whatever waits is done some day.

    With one slot, or where each slot has another tenant, a tenant waits for a turn to end, which its wall clock bounds.

    To take a turn costs a step for each tenant, and nothing for each request that waits.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._changed = threading.Condition()
        # A tenant without requests stays: when it queues again, it must not come before tenants that have waited.
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        self._turns = count(1)
        self._idle: list[Turn] = []
        self._closed = False

    def put(self, waiting: TraceStatus) -> None:
        """Let the request wait. What nobody asked for, and a turn that a tenant without one needs, have to give way."""
        with self._changed:
            insort(self._tenants[waiting.tenant].waiting, _place_of(waiting))
            self._changed.notify()
            self._end_idle_turns()
            self._free_slot()

    def remove(self, cancelled: TraceStatus) -> None:
        """Remove the request if it waits. This counts as no turn of its tenant."""
        with self._changed:
            tenant = self._tenants[cancelled.tenant]
            place = tenant.find(cancelled)
            if place is not None:
                del tenant.waiting[place]

    def take(self, within_s: float | None = None) -> Turn | None:
        """Wait for the next turn, which lasts until `done`; None as soon as the queue is closed.

        Raises TimeoutError if nothing waits for `within_s` seconds; None waits for ever.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._anything_waits(), within_s):
                raise TimeoutError
            return None if self._closed else self._next()

    def begin_idle(self, turn: Turn) -> None:
        """Begin the turn of a request that nobody asked for. It counts for no tenant, and gives way to any request."""
        with self._changed:
            self._idle.append(turn)
            if self._anything_waits():  # it came since the slot found nothing
                self._end_idle_turns()

    def take_over(self, request_id: str) -> None:
        """Let the idle turn of this request, if there is one, be its tenant's, because somebody asks for it now."""
        with self._changed:
            for turn in [one for one in self._idle if one.request_id == request_id]:
                self._idle.remove(turn)
                self._begin(turn)

    def done(self, turn: Turn) -> None:
        with self._changed:
            turns = self._idle if turn in self._idle else self._tenants[turn.tenant].turns
            turns.remove(turn)

    def position(self, request: TraceStatus) -> int | None:
        """Return the request's place in the order of turns, from 1, if all that runs goes on; None if it waits not."""
        with self._changed:
            own = self._tenants.get(request.tenant)
            place = None if own is None else own.find(request)
            if own is None or place is None:
                return None
            level = len(own.turns) + place
            others = (other for other in self._tenants.values() if other is not own and other.waiting)
            return 1 + place + sum(other.turns_before(own, level) for other in others)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _anything_waits(self) -> bool:
        return any(tenant.waiting for tenant in self._tenants.values())

    def _next(self) -> Turn:
        name, tenant = min(
            ((name, tenant) for name, tenant in self._tenants.items() if tenant.waiting),
            key=lambda item: item[1].precedence,
        )
        turn = Turn(name, tenant.waiting.popleft()[1])
        self._begin(turn)
        return turn

    def _begin(self, turn: Turn) -> None:
        tenant = self._tenants[turn.tenant]
        tenant.turns.append(turn)
        tenant.last_turn = next(self._turns)

    def _end_idle_turns(self) -> None:
        for turn in self._idle:
            turn.cancellation.set("giving way")

    def _free_slot(self) -> None:
        """Have a turn give way if a tenant runs nothing, waits, and will find no slot, while another runs several.

        One request was put, so one slot is enough: whoever waited before has been seen to.
        """
        lasting = [(tenant, tenant.lasting_turns) for tenant in self._tenants.values()]
        slots_to_come = self._slots - sum(len(turns) for _, turns in lasting)
        without_turn = sum(bool(tenant.waiting) and not turns for tenant, turns in lasting)
        _, most = max(lasting, key=lambda one: (len(one[1]), one[0].last_turn))
        if without_turn > slots_to_come and len(most) > 1:
            most[-1].cancellation.set("giving way")


_Place = tuple[datetime, str]


def _place_of(request: TraceStatus) -> _Place:
    return request.created_at, request.id


@dataclass
class _Tenant:
    waiting: deque[_Place] = field(default_factory=deque)  # sorted: the oldest is the first
    turns: list[Turn] = field(default_factory=list)  # the youngest is the last
    last_turn: int = 0

    @property
    def precedence(self) -> tuple[int, int, _Place]:
        """Lowest first. The oldest request decides between tenants that never had a turn."""
        return len(self.turns), self.last_turn, self.waiting[0]

    @property
    def lasting_turns(self) -> list[Turn]:
        """The turns that are not about to end because they have to."""
        return [turn for turn in self.turns if turn.cancellation.reason is None]

    def find(self, request: TraceStatus) -> int | None:
        """Return how many of the tenant's requests wait before this one; None if it does not wait."""
        place = bisect_left(self.waiting, _place_of(request))
        is_there = place < len(self.waiting) and self.waiting[place] == _place_of(request)
        return place if is_there else None

    def turns_before(self, other: "_Tenant", level: int) -> int:
        """Return how many of the waiting requests come before that of another tenant which then runs `level` requests.

        All do whose tenant then runs fewer. Where both run as many, first is the tenant that runs more now: the other
        one had its last turn later.
        """
        is_first = self._precedence_at_a_level < other._precedence_at_a_level
        return max(0, min(len(self.waiting), level - len(self.turns) + is_first))

    @property
    def _precedence_at_a_level(self) -> tuple[int, int, _Place]:
        return -len(self.turns), self.last_turn, self.waiting[0]
