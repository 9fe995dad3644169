"""Beginnings: in each turn of the event loop few requests begin, so that whoever sends many keeps nobody waiting.

A request is worked on in some dozen steps, and each waits for the steps of all others that have begun. Three hundred
connections that ask again at once, whatever they are answered, made each step of another request take a third of a
second.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from service.api.http.places import Owner

Begin = Callable[[], object]


class Beginnings:
    """In each turn of the loop one request of a tenant begins, and one without a key.

    Tenants take turns, and so do addresses; of one of them, the request that came first is next. Where nothing waits, a
    request begins at once. It is for one event loop.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {"tenant": _Line(), "address": _Line()}
        self._is_scheduled = False

    @property
    def waiting(self) -> int:
        """How many requests wait to begin."""
        return sum(line.waiting for line in self._lines.values())

    def take(self, owner: Owner, request: object, begin: Begin, loop: asyncio.AbstractEventLoop) -> None:
        """Have the request begin now, or in its turn."""
        self._schedule(loop)
        if self._lines[owner.kind].take(owner, request, begin):
            begin()

    def give_up(self, owner: Owner, request: object) -> bool:
        """The client has gone: if the request has not begun, it never does. Return whether that is so."""
        return self._lines[owner.kind].give_up(owner, request)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        for begin in [line.next() for line in self._lines.values()]:
            if begin is not None:
                self._schedule(loop)
                begin()


class _Line:
    """Those of one kind: each owner that waits is in the line once."""

    def __init__(self) -> None:
        self._owners: deque[Owner] = deque()
        self._waiting: dict[Owner, dict[object, Begin]] = {}
        self._has_begun = False  # in this turn of the loop

    @property
    def waiting(self) -> int:
        return sum(len(requests) for requests in self._waiting.values())

    def take(self, owner: Owner, request: object, begin: Begin) -> bool:
        """Whether it may begin now; else it waits."""
        if not self._has_begun and not self._waiting:
            self._has_begun = True
            return True
        if owner not in self._waiting:
            self._owners.append(owner)
            self._waiting[owner] = {}
        self._waiting[owner][request] = begin
        return False

    def give_up(self, owner: Owner, request: object) -> bool:
        return self._waiting.get(owner, {}).pop(request, None) is not None

    def next(self) -> Begin | None:
        """Return what begins in this turn."""
        self._has_begun = False
        while self._owners:
            owner = self._owners.popleft()
            requests = self._waiting[owner]
            begin = requests.pop(next(iter(requests))) if requests else None
            if requests:
                self._owners.append(owner)
            else:
                del self._waiting[owner]
            if begin is not None:
                self._has_begun = True
                return begin
        return None
