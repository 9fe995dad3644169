"""The pool's memory: what each runner is admitted to it with, and which end so that another one fits in."""

import asyncio
import logging
import math
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from service.domain.errors import PoolMemoryShort
from service.serving.deployment import Deployment, DeploymentKey, Deployments
from service.serving.room import Activity, Holding, Need, Room
from service.serving.runner import Runner
from service.serving.seat import Seat
from tracehouse.byte_units import MIB

# What a runner is expected to take beside its weights until it is measured: 6 MiB for a tiny model, and activations.
_RUNNER_BYTES = 32 * MIB
# A deployment and a number: some hundred bytes each.
_REMEMBERED_MAX = 10_000

_NO_MEMORY = "there is no memory for the model's process"

_log = logging.getLogger(__name__)


class Lodger(Protocol):
    """A process beside the runners that has a part of the pool's memory as long as no runner needs it."""

    @property
    def resident_bytes(self) -> int:
        """What it takes now."""

    def give_way(self) -> None:
        """End it now, without waiting."""


class PoolMemory:
    """What the runners of all deployments may take together; `room` says which are evicted for another.

    A tenant has a share of the memory until `share_s` seconds after its last request. An answer takes at most
    `answer_s`. `evicted` counts the runners that were ended for another, or because they outgrew the memory.
    """

    def __init__(self, deployments: Deployments, max_bytes: int, share_s: float, answer_s: float) -> None:
        self.evicted = 0
        self.pinned: frozenset[DeploymentKey] = frozenset()
        self._deployments = deployments
        self._max_bytes = max_bytes
        self._share_s = share_s
        self._answer_s = answer_s
        self._lodger: Lodger | None = None
        self._asked_at: dict[str, float] = {}  # by tenant
        self._largest_bytes: dict[DeploymentKey, int] = {}  # that a runner was seen to take; the last seen at the end

    def share(self, lodger: Lodger) -> None:
        """Count what the process takes, and end it where a runner needs that."""
        self._lodger = lodger

    @property
    def lodger_bytes(self) -> int:
        """What the process beside the runners takes now."""
        return 0 if self._lodger is None else self._lodger.resident_bytes

    def pin(self, keys: Collection[DeploymentKey]) -> None:
        """Have the runners of these stay, as far as the shares of their tenants go, and no others."""
        self.pinned = frozenset(keys)

    def count_request(self, tenant: str) -> None:
        """Let the tenant have its share from now on."""
        self._asked_at[tenant] = time.monotonic()

    def has_room(self, tenant: str, byte_size: int) -> bool:
        """Whether so much fits in beside all that is there."""
        return self.room().fits(Need(tenant, byte_size))

    def refuse_first(self, key: DeploymentKey, archive_bytes: int) -> None:
        """Raises PoolMemoryShort if there can be no room now for a deployment's first runner."""
        need = Need(key[0], self._expected_bytes(key, archive_bytes), is_first=True, is_pinned=key in self.pinned)
        # The process beside the runners ends where that makes room.
        if not self.lodger_bytes and self.room().victims(need, time.monotonic()) is None:
            raise self._short(None, need, _NO_MEMORY)

    def would_stay(self, key: DeploymentKey, archive_bytes: int) -> bool:
        """Whether a pinned runner that is started for an artifact would stay, beside the tenant's other pinned ones."""
        byte_size, now = self._expected_bytes(key, archive_bytes), time.monotonic()
        new = Holding(*key, byte_size, byte_size, now, is_pinned=True, seat=-1)
        room = self.room()
        others = [holding for holding in room.holdings if holding.key != key]
        # Without the process beside the runners, which gives way.
        return replace(room, memory_max_bytes=self._max_bytes, holdings=others).would_stay(new, now)

    def expect(self, deployment: Deployment, seat: Seat) -> None:
        """Have the seat's next runner admitted with what one of the deployment is expected to take."""
        seat.admitted_bytes = self._expected_bytes(deployment.key, deployment.artifact.archive.byte_size)

    def forget_size(self, deployment: Deployment) -> None:
        """Forget what a runner of the deployment was seen to take: the next one is another form."""
        self._largest_bytes.pop(deployment.key, None)

    def expect_as(self, key: DeploymentKey, other: DeploymentKey) -> None:
        """Expect a runner to take what one of the other deployment was seen to take."""
        if (byte_size := self._largest_bytes.get(other)) is not None:
            self._remember(key, byte_size)

    async def make_room(self, deployment: Deployment, seat: Seat) -> None:
        """Evict runners until the seat's fits. Raises PoolMemoryShort at once if that cannot be.

        A tenant within its share waits for answers of those that are not.
        """
        while (victims := self._victims(deployment, seat)) != []:
            if victims is None:
                raise self.short(deployment, seat)
            await asyncio.gather(*map(self._evict, victims))

    async def readmit(self, deployment: Deployment, seat: Seat) -> None:
        """Admit a runner that has grown anew, or end it."""
        runner = seat.runner
        if runner is None or (byte_size := runner.resident_bytes) <= seat.admitted_bytes:
            return
        self._remember(deployment.key, byte_size)
        admitted_bytes, seat.admitted_bytes = seat.admitted_bytes, byte_size
        victims = self._victims(deployment, seat)
        if victims is None:
            seat.admitted_bytes = admitted_bytes
            _log.info("runner outgrew the pool", extra={"artifact": deployment.digest, "bytes": byte_size})
            self.evicted += 1
            await runner.evict()
            return
        # This answer does not wait for those of others: the next start does.
        await asyncio.gather(*(self._evict(victim) for victim in victims if victim.activity is not Activity.BUSY))

    def short(self, deployment: Deployment, seat: Seat, reason: str = _NO_MEMORY) -> PoolMemoryShort:
        """Return the error of who asks for the seat's runner, for which there is no room."""
        largest_bytes = self._largest_bytes.get(deployment.key, 0)
        return self._short(seat, self._need(deployment, seat, max(seat.admitted_bytes, largest_bytes)), reason)

    def room(self, asking: Seat | None = None) -> Room:
        """Return what all others hold beside the seat that asks; what all hold, if none does."""
        holdings = [
            holding
            for key, deployment in self._deployments.items()
            for seat, holding in deployment.holdings(self._answer_s, is_pinned=key in self.pinned)
            if seat is not asking
        ]
        for holding in holdings:
            if holding.has_outgrown:
                self._remember(holding.key, holding.byte_size)
        return Room(max(0, self._max_bytes - self.lodger_bytes), self._share_s, holdings, self._asked_at)

    def _expected_bytes(self, key: DeploymentKey, archive_bytes: int) -> int:
        """Return what a runner that is started is expected to take."""
        return max(archive_bytes + _RUNNER_BYTES, self._largest_bytes.get(key, 0))

    def _remember(self, key: DeploymentKey, byte_size: int) -> None:
        """Remember the most that a runner was seen to take, so that the next one is admitted for as much."""
        self._largest_bytes[key] = max(byte_size, self._largest_bytes.pop(key, 0))
        if len(self._largest_bytes) > _REMEMBERED_MAX:
            del self._largest_bytes[next(iter(self._largest_bytes))]

    def _need(self, deployment: Deployment, seat: Seat, byte_size: int) -> Need:
        is_first, is_pinned = deployment.is_first(seat), deployment.key in self.pinned
        return Need(deployment.tenant, byte_size, is_first=is_first, is_pinned=is_pinned)

    def _victims(self, deployment: Deployment, seat: Seat) -> list[Holding] | None:
        """Return the runners to end for the seat's, after the process beside them, if one is."""
        need = self._need(deployment, seat, seat.admitted_bytes)
        victims = self.room(seat).victims(need, time.monotonic())
        if victims != [] and self._lodger is not None and self.lodger_bytes:
            self._lodger.give_way()
            victims = self.room(seat).victims(need, time.monotonic())
        return victims

    async def _evict(self, victim: Holding) -> None:
        """Evict a runner, unless it does something else by now."""
        deployment = self._deployments.get(victim.key)
        if deployment is None:
            return
        for seat, holding in deployment.holdings(self._answer_s):
            if holding.seat == victim.seat and holding.may_still_end(victim) and seat.runner is not None:
                await self._evict_runner(seat.runner, victim)
                break
        self._deployments.forget_if_unused(deployment)

    async def _evict_runner(self, runner: Runner, victim: Holding) -> None:
        self.evicted += 1
        _log.info("runner evicted", extra={"artifact": victim.digest, "bytes": victim.byte_size})
        if victim.activity is Activity.BUSY and not victim.has_outgrown:
            await runner.drain()
        else:
            await runner.evict()

    def _short(self, asking: Seat | None, need: Need, reason: str) -> PoolMemoryShort:
        now, room = time.monotonic(), self.room(asking)
        share_bytes, pinned_bytes = room.share_bytes(need, now), room.pinned_bytes(need.tenant)
        share = f"{share_bytes} bytes" + (f", of which pinned models take {pinned_bytes}" if pinned_bytes else "")
        return PoolMemoryShort(
            f"{reason}: it needs {need.byte_size} bytes, and the tenant's share of the pool is {share}",
            needed_bytes=need.byte_size,
            share_bytes=share_bytes,
            retry_after_s=max(1, math.ceil(room.free_at(need, now) - now)),
        )
