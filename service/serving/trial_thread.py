"""The trial thread: what is found out about artifacts beside the runners, on a thread, one thing at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.sandbox.cancellation import Cancellation

T = TypeVar("T")


class TrialThread:
    """All of it belongs to the event loop, but for the work, which ends soon when its cancellation is set."""

    def __init__(self, name: str) -> None:
        self._cancellation: Cancellation | None = None
        self._thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[Cancellation], T]) -> T:
        """Do the work. Nothing else may be going on."""
        assert self._cancellation is None
        cancellation = self._cancellation = Cancellation()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, cancellation)
        finally:
            self._cancellation = None

    def give_way(self) -> None:
        """End the work that is going on: others need the memory."""
        if self._cancellation is not None:
            self._cancellation.set("giving way")

    def close(self) -> None:
        self.give_way()
        self._thread.shutdown(wait=False, cancel_futures=True)
