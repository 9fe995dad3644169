"""The pool: it starts runners on first use, replaces those that die, and evicts some to stay in its memory."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from service.domain.errors import DeviceUnavailable, PoolMemoryShort, PoolSaturated, ShuttingDown
from service.sandbox.zygote import Zygote
from service.serving.deployment import Deployment, DeploymentKey
from service.serving.room import Activity, Holding, Need, Room
from service.serving.runner import Runner, RunnerLimits, RunnerState
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.errors import AnswerTooLarge, GraphRaised, RunnerLost
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor

# What a runner is expected to take beside its weights until it is measured: 6 MiB for a tiny model, and activations.
_RUNNER_BYTES = 32 * MIB
# A deployment and a number: some hundred bytes each.
_REMEMBERED_MAX = 10_000

Used = TypeVar("Used")

_log = logging.getLogger(__name__)


class PoolLimits(Frozen):
    """What all runners together may use, and how long an artifact is held back whose runners die.

    A tenant has a share of the memory until `share_s` seconds after its last request.
    """

    runner: RunnerLimits
    memory_max_bytes: int
    waiting_max: int
    share_s: float = 60.0
    hold_s: float = 30.0


class Pool:
    """Has at most one runner for a tenant and an artifact, so that no process sees the inputs of two tenants.

    `waiting_max` requests may wait for each artifact; the next is refused at once. If a runner dies, its request is
    asked once more. An artifact that ends two runners in a row, or whose golden cases fail, is held back for `hold_s`:
    its requests are refused with the reason. `room` says which runners are evicted for another.
    """

    def __init__(
        self, zygote: Zygote, blobs: Blobs, limits: PoolLimits, *, devices: Collection[str] = ("cpu",)
    ) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._devices = devices
        self._deployments: dict[DeploymentKey, Deployment] = {}
        self._asked_at: dict[str, float] = {}  # by tenant
        self._largest_bytes: dict[DeploymentKey, int] = {}  # that a runner was seen to take; the last seen at the end
        self._closing = False
        self._closed = False
        self._drained = asyncio.Event()

    async def infer(
        self,
        tenant: str,
        artifact: Artifact,
        digest: str,
        method: str,
        inputs: Sequence[Tensor],
        *,
        seed: int,
        on_turn: Callable[[], object] = lambda: None,
    ) -> list[Tensor]:
        """Return the outputs in the contract's order, for inputs that the contract has accepted.

        `seed` seeds the random numbers that are drawn. `on_turn` is called when the request is sent to a runner.

        Raises GraphRaised, AnswerTooLarge, InferenceTimeout, RunnerLost, PoolSaturated, PoolMemoryShort,
        DeviceUnavailable or ShuttingDown.
        """
        async with self._take_turn(tenant, artifact, digest) as deployment:

            async def call(runner: Runner) -> list[Tensor]:
                on_turn()
                try:
                    outputs = await runner.infer(method, inputs, seed=seed)
                except (GraphRaised, AnswerTooLarge):
                    await self._count_answer(deployment)
                    raise
                await self._count_answer(deployment)
                return outputs

            return await self._use_with_retry(deployment, call)

    async def prepare(self, tenant: str, artifact: Artifact, digest: str) -> None:
        """Return when a runner is ready for the artifact. Raises what `infer` raises, apart from errors of a call."""

        async def leave(_: Runner) -> None:
            return None

        async with self._take_turn(tenant, artifact, digest) as deployment:
            await self._use_with_retry(deployment, leave)

    async def release(self, tenant: str, digest: str) -> None:
        """End the artifact's runner, if it has one, once it has answered the request that has its turn."""
        deployment = self._deployments.get((tenant, digest))
        if deployment is None:
            return
        async with deployment.turn:
            if deployment.runner is not None:
                await deployment.runner.settle()
                await deployment.runner.close()
        self._forget_if_unused(deployment)

    @asynccontextmanager
    async def _take_turn(self, tenant: str, artifact: Artifact, digest: str) -> AsyncIterator[Deployment]:
        if self._closing:
            raise ShuttingDown("no more inference is taken")
        if artifact.device not in self._devices:
            raise DeviceUnavailable(
                f"the artifact is for {artifact.device}, and this service has none", devices=[*self._devices]
            )
        deployment = self._deployments.setdefault((tenant, digest), Deployment(tenant, artifact, digest))
        self._asked_at[tenant] = time.monotonic()
        deployment.refuse_if_held_back()
        waiting_max = self._limits.waiting_max
        if deployment.pending > waiting_max:
            raise PoolSaturated(f"{waiting_max} requests wait for this artifact", waiting_max=waiting_max)
        deployment.pending += 1
        try:
            async with deployment.turn:
                yield deployment
        finally:
            self._finish_request(deployment)

    @property
    def runners(self) -> dict[DeploymentKey, Runner]:
        """The runners that live, by their tenant and their artifact's digest."""
        return {
            key: deployment.runner
            for key, deployment in self._deployments.items()
            if deployment.runner is not None and deployment.has_runner
        }

    async def close(self, grace_s: float) -> None:
        """Take no more requests, let the pending ones finish for `grace_s` seconds, then kill every runner."""
        self._closing = True
        if self._is_drained():
            self._drained.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._drained.wait()
        self._closed = True
        starting = [deployment.starting for deployment in self._deployments.values() if deployment.starting is not None]
        await asyncio.gather(*(runner.close() for runner in self.runners.values()))
        await asyncio.gather(*starting, return_exceptions=True)

    async def _use_with_retry(self, deployment: Deployment, use: Callable[[Runner], Awaitable[Used]]) -> Used:
        try:
            return await self._use(deployment, use)
        except RunnerLost as error:
            _log.warning("runner lost", extra={"artifact": deployment.digest, "reason": error.detail})
            deployment.refuse_if_held_back()
        return await self._use(deployment, use)

    async def _use(self, deployment: Deployment, use: Callable[[Runner], Awaitable[Used]]) -> Used:
        if self._closed:
            raise ShuttingDown("the service stopped before this was computed")
        deployment.refuse_if_held_back()
        try:
            runner = await self._ready_runner(deployment)
            return await use(runner)
        except RunnerLost as error:
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed") from error
            if deployment.runner is not None and deployment.runner.was_evicted:
                raise self._memory_short(deployment, "the model's process was ended for another tenant's") from error
            deployment.count_death(error, self._limits.hold_s)
            deployment.refuse_if_held_back()
            raise

    async def _ready_runner(self, deployment: Deployment) -> Runner:
        if deployment.runner is not None:
            await deployment.runner.settle()
            if deployment.runner.state is RunnerState.READY:
                return deployment.runner
        if deployment.starting is None:
            deployment.starting = asyncio.create_task(self._start_runner(deployment))
        # Shielded: the next request waits for this runner, also when the one that started it is cancelled.
        return await asyncio.shield(deployment.starting)

    async def _start_runner(self, deployment: Deployment) -> Runner:
        began = time.monotonic()
        expected_bytes = deployment.artifact.archive.byte_size + _RUNNER_BYTES
        deployment.admitted_bytes = max(expected_bytes, self._largest_bytes.get(deployment.key, 0))
        try:
            if deployment.runner is not None:
                await deployment.runner.close()  # it may be about to end, and has its memory until then
            await self._make_room(deployment)
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed")
            deployment.runner = runner = Runner(
                deployment.artifact, deployment.digest, self._limits.runner, expected_bytes=deployment.admitted_bytes
            )
            await runner.start(self._zygote, self._blobs)
        finally:
            deployment.starting = None
        seconds = round(time.monotonic() - began, 3)
        _log.info("runner ready", extra={"artifact": deployment.digest, "pid": runner.pid, "seconds": seconds})
        return runner

    async def _make_room(self, deployment: Deployment) -> None:
        """Evict runners until this deployment's fits. Raises PoolMemoryShort at once if that cannot be.

        A tenant within its share waits for answers of those that are not.
        """
        deployment.waits_for_room = True
        try:
            while (victims := self._victims(deployment)) != []:
                if victims is None:
                    raise self._memory_short(deployment, "there is no memory for the model's process")
                await asyncio.gather(*map(self._evict, victims))
        finally:
            deployment.waits_for_room = False

    async def _count_answer(self, deployment: Deployment) -> None:
        """Count an answer. A runner that has grown must be admitted anew, or ends."""
        deployment.count_answer()
        runner = deployment.runner
        if runner is None or (byte_size := runner.resident_bytes) <= deployment.admitted_bytes:
            return
        self._remember(deployment.key, byte_size)
        admitted_bytes, deployment.admitted_bytes = deployment.admitted_bytes, byte_size
        victims = self._victims(deployment)
        if victims is None:
            deployment.admitted_bytes = admitted_bytes
            _log.info("runner outgrew the pool", extra={"artifact": deployment.digest, "bytes": byte_size})
            await runner.evict()
            return
        # This answer does not wait for those of others: the next start does.
        await asyncio.gather(*(self._evict(victim) for victim in victims if victim.activity is not Activity.BUSY))

    def _victims(self, deployment: Deployment) -> list[Holding] | None:
        need = Need(deployment.tenant, deployment.admitted_bytes)
        return self._room(deployment).victims(need, time.monotonic())

    def _room(self, asking: Deployment) -> Room:
        """Return what all others hold beside the deployment that asks."""
        answer_s = self._limits.runner.infer_timeout_s
        others = [deployment.holding(answer_s) for deployment in self._deployments.values() if deployment is not asking]
        holdings = [holding for holding in others if holding is not None]
        for holding in holdings:
            if holding.has_outgrown:
                self._remember((holding.tenant, holding.digest), holding.byte_size)
        return Room(self._limits.memory_max_bytes, self._limits.share_s, holdings, self._asked_at)

    def _remember(self, key: DeploymentKey, byte_size: int) -> None:
        """Remember the most that a runner was seen to take, so that the next one is admitted for as much."""
        self._largest_bytes[key] = max(byte_size, self._largest_bytes.pop(key, 0))
        if len(self._largest_bytes) > _REMEMBERED_MAX:
            del self._largest_bytes[next(iter(self._largest_bytes))]

    async def _evict(self, victim: Holding) -> None:
        """Evict a runner, unless it does something else by now."""
        deployment = self._deployments.get((victim.tenant, victim.digest))
        if deployment is None or deployment.runner is None:
            return
        holding = deployment.holding(self._limits.runner.infer_timeout_s)
        if holding is None or holding.activity is not victim.activity:
            return
        _log.info("runner evicted", extra={"artifact": victim.digest, "bytes": victim.byte_size})
        if victim.activity is Activity.BUSY and not victim.has_outgrown:
            await deployment.runner.drain()
        else:
            await deployment.runner.evict()
        self._forget_if_unused(deployment)

    def _memory_short(self, deployment: Deployment, reason: str) -> PoolMemoryShort:
        now, room = time.monotonic(), self._room(deployment)
        need = Need(deployment.tenant, max(deployment.admitted_bytes, self._largest_bytes.get(deployment.key, 0)))
        share_bytes = room.share_bytes(need, now)
        return PoolMemoryShort(
            f"{reason}: it needs {need.byte_size} bytes, and the tenant's share of the pool is {share_bytes} bytes",
            needed_bytes=need.byte_size,
            share_bytes=share_bytes,
            retry_after_s=max(1, math.ceil(room.free_at(need, now) - now)),
        )

    def _is_drained(self) -> bool:
        return not any(deployment.pending for deployment in self._deployments.values())

    def _finish_request(self, deployment: Deployment) -> None:
        deployment.pending -= 1
        deployment.used_at = time.monotonic()
        self._forget_if_unused(deployment)
        if self._closing and self._is_drained():
            self._drained.set()

    def _forget_if_unused(self, deployment: Deployment) -> None:
        if deployment.is_forgettable:
            self._deployments.pop(deployment.key, None)
