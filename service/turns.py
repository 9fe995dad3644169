"""Turns: work of requests on threads, or in processes, shared out between the tenants that they come from."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from service.domain.errors import TooMuchWorkWaits
from tracehouse.frozen import Frozen

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_END = object()

# How a piece of work is done: on a thread, or in a process.
Place = Callable[[Callable[[], Any], CapacityLimiter], Awaitable[Any]]


async def on_thread(work: Callable[[], R], limiter: CapacityLimiter) -> R:
    return await to_thread.run_sync(work, limiter=limiter)


class TurnLimits(Frozen):
    """How much is done at once, and how much may wait for that: in all, and of one tenant."""

    running_max: int
    tenant_running_max: int
    waiting_max: int
    tenant_waiting_max: int


class Turns:
    """Next is the tenant of which the least work runs; among equals, the one whose turn was longest ago.

    Of a tenant, the oldest work is next. No turn is cut short. If a tenant may not run all that runs at once, work of
    another one begins at once, or as soon as one piece of work has ended for each tenant that waits before it.

    Cancelled work that waits is never done. What runs goes on to its end, and holds its turn until then; in between, it
    can call `anyio.from_thread.check_cancelled`. Turns are for one event loop.
    """

    def __init__(self, limits: TurnLimits, place: Place = on_thread) -> None:
        self._limits = limits
        self._place = place
        self._limiter = CapacityLimiter(limits.running_max)
        # A tenant without work stays: when it comes again, it must not come before tenants that have waited.
        self._tenants: defaultdict[str, _Tenant] = defaultdict(_Tenant)
        self._order = count(1)
        self._running = 0

    @property
    def running(self) -> int:
        """How many pieces of work have their turn."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many pieces of work wait for their turn."""
        return sum(len(each.waiting) for each in self._tenants.values())

    def is_wanted(self, tenant: str) -> bool:
        """Whether work waits that could begin if one turn of this tenant ended."""
        if self._tenants[tenant].waiting:
            return True
        return self._running >= self._limits.running_max and bool(self._tenants_that_may())

    async def run(self, tenant: str, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do the work when it is the tenant's turn. Raises TooMuchWorkWaits at once if too much waits."""
        async with self._turn(tenant, is_new=True):
            return await self._do(partial(work, *args, **kwargs))

    async def run_on(self, tenant: str, read: Callable[[], T], work: Callable[[T], R]) -> R:
        """Do the same with what `read`, which is done on a thread in the same turn, has returned."""
        async with self._turn(tenant, is_new=True):
            found = await on_thread(read, self._limiter)
            return await self._do(partial(work, found))

    async def go_on(self, tenant: str, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do more work for a request that was let in: it waits for its turn, and is never refused."""
        async with self._turn(tenant, is_new=False):
            return await self._do(partial(work, *args, **kwargs))

    async def iterate(self, tenant: str, items: Iterator[T]) -> AsyncIterator[T]:
        """Yield the items, each of which takes a turn, as that of a request that was let in."""
        while (item := await self.go_on(tenant, next, items, _END)) is not _END:
            yield item  # type: ignore[misc]

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Hold a turn for something that needs no thread. Raises TooMuchWorkWaits at once if too much waits."""
        async with self._turn(tenant, is_new=True):
            yield

    async def _do(self, work: Callable[[], R]) -> R:
        done: R = await self._place(work, self._limiter)
        return done

    @asynccontextmanager
    async def _turn(self, name: str, *, is_new: bool) -> AsyncIterator[None]:
        tenant = self._tenants[name]
        turn = asyncio.Event()
        tenant.waiting.append(turn)
        self._give_turns()
        try:
            if is_new and not turn.is_set():
                self._refuse_if_too_much_waits(tenant)
            await turn.wait()
            yield
        finally:
            if turn.is_set():  # also if it came at the moment at which the work was cancelled
                tenant.running -= 1
                self._running -= 1
                self._give_turns()
            else:
                tenant.waiting.remove(turn)

    def _refuse_if_too_much_waits(self, tenant: "_Tenant") -> None:
        """Raise TooMuchWorkWaits if one piece of work, which waits already, is one too many."""
        for waiting, most in (
            (len(tenant.waiting), self._limits.tenant_waiting_max),
            (self.waiting, self._limits.waiting_max),
        ):
            if waiting > most:
                raise TooMuchWorkWaits(f"{most} requests wait for their turn already", limit=most)

    def _give_turns(self) -> None:
        while self._running < self._limits.running_max and (next_ones := self._tenants_that_may()):
            tenant = min(next_ones, key=lambda each: (each.running, each.last_turn))
            tenant.running += 1
            tenant.last_turn = next(self._order)
            self._running += 1
            tenant.waiting.popleft().set()

    def _tenants_that_may(self) -> list["_Tenant"]:
        most = self._limits.tenant_running_max
        return [each for each in self._tenants.values() if each.waiting and each.running < most]


@dataclass
class _Tenant:
    waiting: deque[asyncio.Event] = field(default_factory=deque)
    running: int = 0
    last_turn: int = 0
