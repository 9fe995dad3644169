"""Watched: what can only be read slowly, for the metrics. A disk or a database that hangs keeps no scrape waiting."""

import asyncio
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from service.domain.errors import StorageUnavailable
from service.storage.database import Store
from service.storage.figures import StoredFigures

# Prometheus gives up a scrape after 10 seconds, unless it is told otherwise.
_WAIT_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of the state directory."""

    free_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WatchedFigures:
    """None where it could not be read."""

    stored: StoredFigures | None = None
    disk: Disk | None = None


class Watched:
    """Reads on one thread of its own, which all that ask meanwhile wait for. All calls come from one event loop."""

    def __init__(self, store: Store, state_dir: Path) -> None:
        self._store = store
        self._state_dir = state_dir
        self._limiter = CapacityLimiter(1)
        self._reading: asyncio.Task[WatchedFigures] | None = None
        self.rendering = CapacityLimiter(1)  # of the metrics

    async def read(self) -> WatchedFigures:
        """Return the figures; empty ones if they do not come in time. Then the next call waits for the same reading."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on_thread())
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=_WAIT_S)
        return reading.result() if done else WatchedFigures()

    async def _read_on_thread(self) -> WatchedFigures:
        try:
            return await to_thread.run_sync(self._read, limiter=self._limiter)
        finally:
            self._reading = None

    def _read(self) -> WatchedFigures:
        return WatchedFigures(self._read_stored(), self._read_disk())

    def _read_stored(self) -> StoredFigures | None:
        try:
            return self._store.figures.read()
        except StorageUnavailable as error:
            log.warning("the metrics lack what the database has", extra={"error": error.detail})
            return None

    def _read_disk(self) -> Disk | None:
        try:
            usage = shutil.disk_usage(self._state_dir)
        except OSError as error:
            log.warning("the metrics lack the disk", extra={"error": str(error)})
            return None
        return Disk(usage.free, usage.total)
