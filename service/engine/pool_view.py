"""A pool's view: what a process of the distributed engine knows of a pool, for positions and expected starts.

The tables have the truth. A view is read anew every few seconds, and meanwhile heeds what this process does itself.
"""

import threading
from collections.abc import Callable
from datetime import datetime
from math import inf

from service.domain.trace_request import State, TraceStatus
from service.engine.expected_start import Durations
from service.engine.fair_order import FairOrder, Turn
from service.storage.turns import PoolState

# Requests whose turn has begun here: one may still be on its way into the view.
_BEGUN_MAX = 1000
# So often, it is read anew at once because this process did something meanwhile.
_READS_MAX = 3


class PoolView:
    """Any thread may use it; none waits for the database meanwhile."""

    def __init__(self, quick_slots: int = 0, long_after_s: float = inf) -> None:
        self.slots = 0
        self.newest_worker = ""
        self._quick_slots = quick_slots
        self._long_after_s = long_after_s
        self._order = FairOrder(0)
        self._durations = Durations()
        self._begun: dict[str, None] = {}
        self._changes = 0
        self._lock = threading.Lock()

    def refresh(self, read: Callable[[], tuple[PoolState, Durations]]) -> None:
        """Take what the tables have. If this process does something while they are read, they are read anew."""
        for attempt in range(_READS_MAX):
            with self._lock:
                before = self._changes
            state, durations = read()
            with self._lock:
                if before == self._changes or attempt == _READS_MAX - 1:
                    self._durations = durations
                    self.note_workers(state)
                    self._order = order_of(state, self._quick_slots, self._long_after_s)
                    return

    def note_workers(self, state: PoolState) -> None:
        """Take what the tables have of the pool's workers."""
        self.slots, self.newest_worker = state.slots, state.newest_worker

    def put(self, waiting: TraceStatus) -> None:
        """Let the request wait, unless its turn has begun already, or the tables have said so before."""
        with self._lock:
            self._changes += 1
            if waiting.state is not State.QUEUED or waiting.is_idle or waiting.id in self._begun:
                return
            if self._order.position(waiting) is None:
                has_begun = waiting.attempt > 0
                self._order.put(waiting.tenant, waiting.created_at, waiting.id, waiting.budget, has_begun=has_begun)

    def remove(self, cancelled: TraceStatus) -> None:
        with self._lock:
            self._changes += 1
            self._order.remove(cancelled)

    def begin(self, turn: Turn) -> None:
        """Let the request have its turn."""
        with self._lock:
            self._changes += 1
            self._begun[turn.request_id] = None
            if len(self._begun) > _BEGUN_MAX:
                del self._begun[next(iter(self._begun))]
            self._order.begin_waiting(turn)

    def end(self, turn: Turn) -> None:
        with self._lock:
            self._changes += 1
            self._begun.pop(turn.request_id, None)
            self._order.end(turn)

    def position(self, request: TraceStatus) -> int | None:
        with self._lock:
            return self._order.position(request)

    def expected_start(self, request: TraceStatus) -> datetime | None:
        with self._lock:
            return self._order.expected_start(request, self._durations)


def order_of(state: PoolState, quick_slots: int, long_after_s: float) -> FairOrder:
    """Return the order of what the tables have."""
    order = FairOrder(state.slots, quick_slots, long_after_s)
    for tenant, number in state.last_turns.items():
        order.note_last_turn(tenant, number)
    for row in state.turns:
        turn = Turn(row.tenant, row.request_id, row.budget, row.began_at, row.created_at)
        if row.gives_way:
            turn.cancellation.set("giving way")
        if row.is_idle:
            order.begin_idle(turn)
        else:
            order.resume(turn)
    for waiting in state.waiting:
        order.put(*waiting[:4], has_begun=waiting.has_begun)
    return order
