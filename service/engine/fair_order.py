"""The fair order: which of the trace requests of one pool that wait is next, and which that runs has to give way."""

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from math import inf
from operator import attrgetter

from service.domain.trace_request import TraceStatus
from service.engine.expected_start import Durations, Running, expected_start
from service.sandbox.cancellation import Cancellation
from tracehouse.spec.trace_spec import BudgetName


@dataclass(frozen=True)
class Turn:
    """A request that has a slot, until `done`. If the cancellation is set, it is to end soon, and be queued again."""

    tenant: str
    request_id: str
    budget: BudgetName = field(default="normal", compare=False)
    began_at: datetime | None = field(default=None, compare=False)
    created_at: datetime | None = field(default=None, compare=False)
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False, repr=False)


class FairOrder:
    """Next is the tenant that runs the fewest requests; among equals, the one whose turn was longest ago.

    Of a tenant, the oldest request is next. A tenant that is alone may have every slot. But a tenant that runs nothing
    does not wait for one that runs several: if no slot is free, the youngest turn of the tenant that runs the most has
    to give way. The oldest turn of a tenant never has to, so whatever waits is done some day.

    Of the slots, `quick_slots` are kept for requests with the budget `quick`, but never all: a quick one then begins
    before older ones that may not.

    A turn that lasts for more than `long_after_s` is a long one. If all slots have long turns, and a request waits that
    is new, the one of them gives way that was submitted last; and what is new then comes first, as long as all other
    slots have long turns. New is what never began, unless its budget is `deep`: that is long itself, and each of many
    would lose what it had done to the next. What was submitted first never gives way for that, so it ends some day.

    With one slot, or where each slot has another tenant, a tenant waits for a turn to end or to become a long one.

    To take a turn costs a step for each tenant, and nothing for each request that waits. One thread at a time may use
    it.
    """

    def __init__(self, slots: int, quick_slots: int = 0, long_after_s: float = inf) -> None:
        self.slots = slots
        self._quick_slots = quick_slots
        self._long_after_s = long_after_s
        # A tenant without requests stays: when it queues again, it must not come before tenants that have waited.
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        self._idle: list[Turn] = []
        self._last_turn = 0

    def put(
        self,
        tenant: str,
        created_at: datetime,
        request_id: str,
        budget: BudgetName = "normal",
        *,
        has_begun: bool = False,
    ) -> None:
        """Let the request wait, which may have begun before."""
        self._tenants[tenant].put((created_at, request_id), budget, has_begun=has_begun)

    def remove(self, cancelled: TraceStatus) -> None:
        """Remove the request if it waits. This counts as no turn of its tenant."""
        tenant = self._tenants[cancelled.tenant]
        place = tenant.find(cancelled)
        if place is not None:
            tenant.take(place)

    @property
    def anything_waits(self) -> bool:
        return any(tenant.waiting for tenant in self._tenants.values())

    @property
    def has_next(self) -> bool:
        """Whether anything waits that may begin: if all other slots are taken, only what is quick may."""
        if self._all_may_begin:
            return self.anything_waits
        return any(tenant.quick for tenant in self._tenants.values())

    @property
    def _all_may_begin(self) -> bool:
        if not self._quick_slots:
            return True
        turns = (turn for tenant in self._tenants.values() for turn in tenant.turns)
        return sum(not is_quick(turn.budget) for turn in turns) < self._long_slots

    @property
    def _long_slots(self) -> int:
        """How many requests that are not quick may run at a time."""
        return max(1, self.slots - self._quick_slots)

    def next(self) -> Turn:
        """Begin the next turn, which lasts until `done`. There must be one, as `has_next` says."""
        kind = self._kind_that_begins()
        name, tenant = min(
            ((name, tenant) for name, tenant in self._tenants.items() if kind(tenant)),
            key=lambda item: item[1].precedence,
        )
        place = kind(tenant)[0]
        request_id, budget = tenant.take(bisect_left(tenant.waiting, place))
        turn = Turn(name, request_id, budget, began_at=datetime.now(UTC), created_at=place[0])
        self.begin(turn)
        return turn

    def _kind_that_begins(self) -> "Callable[[_Tenant], deque[_Place]]":
        """Return which of a tenant's waiting requests may begin now; there is one."""
        if not self._all_may_begin:
            return attrgetter("quick")
        if self._are_long(self._long_slots - 1) and any(tenant.new for tenant in self._tenants.values()):
            return attrgetter("new")
        return attrgetter("waiting")

    def _are_long(self, slots: int) -> bool:
        """Whether so many slots, of those that are not kept for quick ones, have long turns."""
        return 0 < slots <= sum(self._is_long(turn) for turn in self._lasting_turns())

    def _lasting_turns(self) -> Iterator[Turn]:
        """Give the turns that last, except, where slots are kept for quick ones, those that are."""
        for tenant in self._tenants.values():
            for turn in tenant.lasting_turns:
                if not (self._quick_slots and is_quick(turn.budget)):
                    yield turn

    def _is_long(self, turn: Turn) -> bool:
        return turn.began_at is not None and (datetime.now(UTC) - turn.began_at).total_seconds() > self._long_after_s

    def begin(self, turn: Turn) -> None:
        """Count a turn of its tenant."""
        self.note_last_turn(turn.tenant, self._last_turn + 1)
        self.resume(turn)

    def resume(self, turn: Turn) -> None:
        """Count a turn that began before; turns are resumed in the order in which they began."""
        self._tenants[turn.tenant].turns.append(turn)

    def note_last_turn(self, tenant: str, number: int) -> None:
        """Note when the tenant's last turn began: turns are counted."""
        self._tenants[tenant].last_turn = number
        self._last_turn = max(self._last_turn, number)

    def begin_idle(self, turn: Turn) -> None:
        """Begin the turn of a request that nobody asked for. It counts for no tenant, and gives way to any request."""
        self._idle.append(turn)

    def take_over(self, request_id: str) -> None:
        """Let the idle turn of this request, if there is one, be its tenant's, because somebody asks for it now."""
        for turn in [one for one in self._idle if one.request_id == request_id]:
            self._idle.remove(turn)
            self.begin(turn)

    def begin_waiting(self, turn: Turn) -> None:
        """Count the turn of a request that waits, if it is known here."""
        tenant = self._tenants[turn.tenant]
        place = next((place for place, one in enumerate(tenant.waiting) if one[1] == turn.request_id), None)
        if place is not None:
            tenant.take(place)
        if turn not in tenant.turns:
            self.begin(turn)

    def end(self, turn: Turn) -> None:
        """End the turn, if it is known here."""
        if turn in self._idle or turn in self._tenants[turn.tenant].turns:
            self.done(turn)

    def done(self, turn: Turn) -> None:
        turns = self._idle if turn in self._idle else self._tenants[turn.tenant].turns
        turns.remove(turn)

    def position(self, request: TraceStatus) -> int | None:
        """Return the request's place in the order of turns, from 1, if all that runs goes on; None if it waits not."""
        own = self._tenants.get(request.tenant)
        place = None if own is None else own.find(request)
        if own is None or place is None:
            return None
        level = len(own.turns) + place
        others = (other for other in self._tenants.values() if other is not own and other.waiting)
        return 1 + place + sum(other.turns_before(own, level) for other in others)

    def expected_start(self, request: TraceStatus, durations: Durations) -> datetime | None:
        """Return when the request is expected to begin, as `expected_start` has it; None also if it waits not."""
        own = self._tenants.get(request.tenant)
        place = None if own is None else own.find(request)
        if own is None or place is None:
            return None
        level = len(own.turns) + place
        ahead: dict[BudgetName, float] = {**own.budgets_of(place)}
        for other in self._tenants.values():
            if other is not own and other.waiting:
                for budget, count in other.budgets_of(other.turns_before(own, level)).items():
                    ahead[budget] = ahead.get(budget, 0.0) + count
        running = [Running(turn.budget, turn.began_at) for each in self._tenants.values() for turn in each.turns]
        slots = self.slots
        if self._quick_slots and not is_quick(request.budget):  # quick ones have the others
            slots, ahead = self._long_slots, {budget: count for budget, count in ahead.items() if not is_quick(budget)}
            running = [one for one in running if not is_quick(one.budget)]
        return expected_start(datetime.now(UTC), slots, running, ahead, durations)

    @property
    def idle_turns(self) -> list[Turn]:
        """The turns of requests that nobody asked for."""
        return [*self._idle]

    def turn_to_end(self) -> Turn | None:
        """Return the turn that has to give way: to a tenant that runs nothing, waits, and will find no slot; or because
        all slots have long turns, and something new waits.

        None if there is no such turn.
        """
        lasting = [(tenant, tenant.lasting_turns) for tenant in self._tenants.values()]
        without_turn = [tenant for tenant, turns in lasting if tenant.waiting and not turns]
        found = _turn_to_end(lasting, len(without_turn), self.slots)
        if found is None and self._quick_slots:
            long = [(tenant, [turn for turn in turns if not is_quick(turn.budget)]) for tenant, turns in lasting]
            found = _turn_to_end(long, sum(not tenant.quick for tenant in without_turn), self._long_slots)
        return found or self._long_turn_to_end()

    def _long_turn_to_end(self) -> Turn | None:
        """Return the turn that was submitted last, if all slots have long ones, and something new waits for them."""
        if self._long_slots < 2 or not self._are_long(self._long_slots) or not self._anything_new_waits:
            return None
        return max(self._lasting_turns(), key=lambda turn: turn.created_at or datetime.min.replace(tzinfo=UTC))

    @property
    def _anything_new_waits(self) -> bool:
        """Whether anything new waits, except, where slots are kept for quick ones, those that are."""
        new = (tenant.budgets[request_id] for tenant in self._tenants.values() for _, request_id in tenant.new)
        return any(not (self._quick_slots and is_quick(budget)) for budget in new)


def is_quick(budget: BudgetName) -> bool:
    return budget == "quick"


def _turn_to_end(lasting: "list[tuple[_Tenant, list[Turn]]]", without_turn: int, slots: int) -> Turn | None:
    """Return the youngest turn of the tenant that has the most, if fewer slots come free than tenants want one."""
    if not lasting or without_turn <= slots - sum(len(turns) for _, turns in lasting):
        return None
    _, most = max(lasting, key=lambda one: (len(one[1]), one[0].last_turn))
    return most[-1] if len(most) > 1 else None


_Place = tuple[datetime, str]
# So many are looked at one by one: of more, it would take longer the more wait. Chosen.
_COUNTED_MAX = 100


@dataclass
class _Tenant:
    waiting: deque[_Place] = field(default_factory=deque)  # sorted: the oldest is the first
    quick: deque[_Place] = field(default_factory=deque)  # those of them that are
    new: deque[_Place] = field(default_factory=deque)  # those of them that never began, and are not deep
    budgets: dict[str, BudgetName] = field(default_factory=dict)  # of what waits, by ids
    counts: Counter[BudgetName] = field(default_factory=Counter)  # of these budgets
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

    def put(self, place: _Place, budget: BudgetName, *, has_begun: bool) -> None:
        insort(self.waiting, place)
        if is_quick(budget):
            insort(self.quick, place)
        if not has_begun and budget != "deep":
            insort(self.new, place)
        self.budgets[place[1]] = budget
        self.counts[budget] += 1

    def take(self, place: int) -> tuple[str, BudgetName]:
        """Take the request at this place from those that wait."""
        taken = self.waiting[place]
        _, request_id = taken
        del self.waiting[place]
        budget = self.budgets.pop(request_id)
        for kind in (self.quick, self.new):
            found = bisect_left(kind, taken)
            if found < len(kind) and kind[found] == taken:
                del kind[found]
        self.counts[budget] -= 1
        return request_id, budget

    def budgets_of(self, count: int) -> Mapping[BudgetName, float]:
        """Return the budgets of so many of those that wait longest; of many, as if all that wait were mixed evenly."""
        if count <= _COUNTED_MAX:
            return Counter(self.budgets[request_id] for _, request_id in islice(self.waiting, count))
        return {budget: number * count / len(self.waiting) for budget, number in self.counts.items() if count}

    def find(self, request: TraceStatus) -> int | None:
        """Return how many of the tenant's requests wait before this one; None if it does not wait."""
        wanted = request.created_at, request.id
        place = bisect_left(self.waiting, wanted)
        is_there = place < len(self.waiting) and self.waiting[place] == wanted
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
