"""The keeper: looks every second after the runners that nobody asks, as their models' options say."""

import asyncio
import logging
from typing import Self

from service.serving.pool import Pool
from service.storage.database import Store

# A change of an option, by whichever process, is gone by after so long.
_EVERY_S = 1.0

_log = logging.getLogger(__name__)


class Keeper:
    """Ends the pool's runners that are idle for too long, on the event loop, between `async with` and its end."""

    def __init__(self, store: Store, pool: Pool, every_s: float = _EVERY_S) -> None:
        self._store = store
        self._pool = pool
        self._every_s = every_s
        self._can_look = True
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                self._can_look = True
            except Exception:  # noqa: BLE001 - the database may be away for a while, and is asked again
                if self._can_look:
                    _log.exception("nobody looks after idle runners")
                self._can_look = False
            await asyncio.sleep(self._every_s)

    async def _look(self) -> None:
        models = self._pool.models
        if models:
            self._pool.end_idle(await asyncio.to_thread(self._store.models.serving_of_all, models))
