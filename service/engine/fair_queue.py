"""The fair queue: the trace requests that wait for a slot of one pool, and the threads that take them in fair order."""

import threading
from datetime import datetime
from math import inf

from service.domain.trace_request import TraceStatus
from service.engine.expected_start import Durations
from service.engine.fair_order import FairOrder, Turn


class FairQueue:
    """Gives each thread the turn that is next in the fair order, and ends turns that have to give way."""

    def __init__(self, slots: int, quick_slots: int = 0, long_after_s: float = inf) -> None:
        self._order = FairOrder(slots, quick_slots, long_after_s)
        self._changed = threading.Condition()
        self._closed = False

    def put(self, waiting: TraceStatus) -> None:
        """Let the request wait. What nobody asked for, and a turn that a tenant without one needs, have to give way."""
        with self._changed:
            self._order.put(
                waiting.tenant, waiting.created_at, waiting.id, waiting.budget, has_begun=waiting.attempt > 0
            )
            self._changed.notify()
            self._end_idle_turns()
            # One request was put, so one slot is enough: whoever waited before has been seen to.
            self._end_turn()

    def end_long_turn(self) -> None:
        """Have a turn give way that has become a long one meanwhile, if it has to."""
        with self._changed:
            self._end_turn()

    def remove(self, cancelled: TraceStatus) -> None:
        """Remove the request if it waits. This counts as no turn of its tenant."""
        with self._changed:
            self._order.remove(cancelled)

    def take(self, within_s: float | None = None) -> Turn | None:
        """Wait for the next turn, which lasts until `done`; None as soon as the queue is closed.

        Raises TimeoutError if nothing waits for `within_s` seconds; None waits for ever.
        """
        with self._changed:
            while not self._changed.wait_for(lambda: self._closed or self._order.has_next, within_s):
                if not self._order.anything_waits:
                    raise TimeoutError
            return None if self._closed else self._order.next()

    def begin_idle(self, turn: Turn) -> None:
        """Begin the turn of a request that nobody asked for. It counts for no tenant, and gives way to any request."""
        with self._changed:
            self._order.begin_idle(turn)
            if self._order.anything_waits:  # it came since the slot found nothing
                self._end_idle_turns()

    def take_over(self, request_id: str) -> None:
        """Let the idle turn of this request, if there is one, be its tenant's, because somebody asks for it now."""
        with self._changed:
            self._order.take_over(request_id)

    def done(self, turn: Turn) -> None:
        with self._changed:
            self._order.done(turn)

    def position(self, request: TraceStatus) -> int | None:
        """Return the request's place in the order of turns, from 1, if all that runs goes on; None if it waits not."""
        with self._changed:
            return self._order.position(request)

    def expected_start(self, request: TraceStatus, durations: Durations) -> datetime | None:
        """Return when the request is expected to begin; None if it waits not, or nobody can know."""
        with self._changed:
            return self._order.expected_start(request, durations)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _end_turn(self) -> None:
        turn = self._order.turn_to_end()
        if turn is not None:
            turn.cancellation.set("giving way")

    def _end_idle_turns(self) -> None:
        for turn in self._order.idle_turns:
            turn.cancellation.set("giving way")
