"""The keeper: looks every second after the runners, as their models' options say.

It has pinned ones started, at the start and whenever one is missing, and ends those that nobody asks.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from service.domain.errors import ModelNotFound, VersionNotFound
from service.domain.model import ModelRef
from service.domain.serving_options import ModelKey, PinnedModel, ServingOptions
from service.serving.deployment import DeploymentKey
from service.serving.inference import Inference
from service.serving.pool import Pool
from service.storage.database import Store
from tracehouse.errors import ServiceError

# A change of an option, by whichever process, is gone by after so long.
_EVERY_S = 1.0
# So many runners are started at a time, one of each tenant: requests need starts, too. Chosen.
_AT_ONCE = 4
# One that does not start, or does not stay for so long, is tried again after 1 s, 2 s, 4 s, and so long at most.
_STEADY_S = 60.0

_log = logging.getLogger(__name__)

# The digests of what answers a version of a model where no device is named.
_Pinned = Mapping[PinnedModel, Sequence[str]]


@dataclass(slots=True)
class _Starts:
    """How often a runner was started in a row, and when the last start was over."""

    tries: int
    ended_at: float

    @property
    def next_at(self) -> float:
        return self.ended_at + min(_STEADY_S, 2.0 ** (self.tries - 1))


class Keeper:
    """Works on the event loop, between `async with` and its end."""

    def __init__(self, store: Store, inference: Inference, pool: Pool, every_s: float = _EVERY_S) -> None:
        self._store = store
        self._inference = inference
        self._pool = pool
        self._every_s = every_s
        self._can_look = True
        self._digests: _Pinned = {}
        self._starts: dict[DeploymentKey, _Starts] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._starting: dict[str, asyncio.Task[None]] = {}  # by tenant
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        for task in (starting := [*self._starting.values()]):
            task.cancel()
        if starting:
            await asyncio.wait(starting)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                self._can_look = True
            except Exception:  # noqa: BLE001 - the database may be away for a while, and is asked again
                if self._can_look:
                    _log.exception("nobody looks after idle and pinned runners")
                self._can_look = False
            await asyncio.sleep(self._every_s)

    async def _look(self) -> None:
        self._digests, options = await asyncio.to_thread(self._read, self._pool.models)
        pinned = self._pinned()
        self._pool.pin(pinned)
        self._pool.look_after(options)
        self._starts = {key: starts for key, starts in self._starts.items() if key in pinned}
        self._start_missing(pinned)

    def _pinned(self) -> dict[DeploymentKey, str]:
        """Return which runners are pinned, with the names of their models."""
        return {
            (one.model.tenant, digest, self._pool.threads(one.model.tenant, digest, one.serving)): one.model.name
            for one, digests in self._digests.items()
            for digest in digests
        }

    def _read(self, models: Collection[ModelKey]) -> tuple[_Pinned, Mapping[ModelKey, ServingOptions | None]]:
        """Read what is pinned, and the options of these models; None: there is no such model any more."""
        pinned = {one: self._digests.get(one) or self._find_digests(one) for one in self._store.models.pinned()}
        return pinned, {**dict.fromkeys(models), **self._store.models.serving_of_all(models)}

    def _find_digests(self, one: PinnedModel) -> list[str]:
        try:
            found = self._store.models.resolve(one.model.tenant, ModelRef(name=one.model.name, version=one.version))
        except (ModelNotFound, VersionNotFound):  # it was deleted a moment ago
            return []
        return [bucket.digest for bucket in found.artifacts_for(found.usual_device)]

    def _start_missing(self, pinned: Mapping[DeploymentKey, str]) -> None:
        now, living = time.monotonic(), self._pool.runners
        missing: dict[str, dict[DeploymentKey, str]] = {}  # of each tenant, with the names of their models
        for key, name in pinned.items():
            starts = self._starts.get(key)
            if key in living:
                self._pool.why_not_kept.pop(key, None)
                if starts is not None and now - starts.ended_at > _STEADY_S:
                    del self._starts[key]
            elif starts is None or now >= starts.next_at:
                missing.setdefault(key[0], {})[key] = name
        for tenant, names in missing.items():
            if tenant not in self._starting:
                self._starting[tenant] = asyncio.create_task(self._start_all(tenant, names))

    async def _start_all(self, tenant: str, names: Mapping[DeploymentKey, str]) -> None:
        """Start a tenant's runners one after the other, by turns with those of other tenants."""
        try:
            for key, name in names.items():
                async with self._places:
                    await self._start(key, name)
        finally:
            del self._starting[tenant]

    async def _start(self, key: DeploymentKey, name: str) -> None:
        """Have a runner ready, if it would stay."""
        tenant, digest, _ = key
        starts = self._starts.setdefault(key, _Starts(0, 0.0))
        starts.tries += 1
        try:
            model = await self._inference.find(tenant, name, None)
            found = [one for one in model.artifacts if one.digest == digest]
            if all(self._pool.would_stay(key, one.archive_bytes) for one in found):
                await self._inference.prepare(model, only=digest)
                self._pool.why_not_kept.pop(key, None)
                return
            why = "it does not fit into the tenant's share of the memory beside its other pinned models"
        except ServiceError as error:
            why = error.detail
        except Exception:  # noqa: BLE001 - others are to be started
            _log.exception("a pinned model could not be started", extra={"model": name, "artifact": digest})
            return
        finally:
            starts.ended_at = time.monotonic()
        self._pool.why_not_kept[key] = why
        if starts.tries == 1:
            _log.warning("a pinned model is not kept ready", extra={"model": name, "artifact": digest, "reason": why})
