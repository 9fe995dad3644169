"""A turn: who may use something now. It can also be taken without waiting, by whoever is no coroutine."""

import asyncio
from collections import deque
from collections.abc import Callable


class Turn:
    """A lock that goes to those who wait for it in their order. `on_free` is called when nobody waits any more."""

    def __init__(self, on_free: Callable[[], object] = lambda: None) -> None:
        self.is_taken = False
        self.on_free = on_free
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take the turn if it is free; whether it was."""
        if self.is_taken:
            return False
        self.is_taken = True
        return True

    def give(self) -> None:
        """Give it to who waits longest."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self.is_taken = False
        self.on_free()

    async def __aenter__(self) -> None:
        if self.take():
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():  # it came at the moment of the cancellation
                self.give()
            raise

    async def __aexit__(self, *_: object) -> None:
        self.give()
