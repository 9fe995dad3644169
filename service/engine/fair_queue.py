"""The fair queue: the trace requests that wait for a slot, and which is next."""

import threading
from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import NamedTuple

from service.domain.trace_request import TraceStatus


class Turn(NamedTuple):
    """A request that was taken, until `done`."""

    tenant: str
    request_id: str


class FairQueue:
    """Next is the tenant that runs the fewest requests; among equals, the one whose turn was longest ago.

    Of a tenant, the oldest request is next. No turn is cut short, so a tenant that is alone may hold every slot. A
    tenant that runs nothing waits at most TRACE_WALL_S, unless more such tenants wait than there are slots.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # A tenant without requests stays: when it queues again, it must not come before tenants that have waited.
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        self._turns = count(1)
        self._closed = False

    def put(self, waiting: TraceStatus) -> None:
        with self._changed:
            insort(self._tenants[waiting.tenant].waiting, (waiting.created_at, waiting.id))
            self._changed.notify()

    def remove(self, tenant: str, request_id: str) -> None:
        """Remove the request if it waits. This counts as no turn of its tenant."""
        with self._changed:
            owner = self._tenants[tenant]
            owner.waiting = [entry for entry in owner.waiting if entry[1] != request_id]

    def take(self, within_s: float | None = None) -> Turn | None:
        """Wait for the next turn, which lasts until `done`; None as soon as the queue is closed.

        Raises TimeoutError if nothing waits for `within_s` seconds; None waits for ever.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self.anything_waits(), within_s):
                raise TimeoutError
            return None if self._closed else self._next()

    def done(self, turn: Turn) -> None:
        with self._changed:
            self._tenants[turn.tenant].running -= 1

    def anything_waits(self) -> bool:
        with self._changed:
            return any(tenant.waiting for tenant in self._tenants.values())

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> Turn:
        name, tenant = min(
            ((name, tenant) for name, tenant in self._tenants.items() if tenant.waiting),
            key=lambda item: item[1].precedence,
        )
        tenant.running += 1
        tenant.last_turn = next(self._turns)
        return Turn(name, tenant.waiting.pop(0)[1])


@dataclass
class _Tenant:
    waiting: list[tuple[datetime, str]] = field(default_factory=list)  # sorted: the oldest is the first
    running: int = 0
    last_turn: int = 0

    @property
    def precedence(self) -> tuple[int, int, tuple[datetime, str]]:
        """Lowest first. The oldest request decides between tenants that never had a turn."""
        return self.running, self.last_turn, self.waiting[0]
