"""The pool: it starts runners on first use, replaces those that die, and evicts idle ones to stay in its memory."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from service.domain.errors import DeviceUnavailable, PoolSaturated, ShuttingDown
from service.sandbox.zygote import Zygote
from service.serving.deployment import Deployment, DeploymentKey
from service.serving.runner import Runner, RunnerLimits, RunnerState
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.errors import AnswerTooLarge, GraphRaised, RunnerLost
from tracehouse.frozen import Frozen
from tracehouse.tensors.tensor import Tensor

# What a runner is expected to take beside its weights until it is measured: 6 MiB for a tiny model, and activations.
_RUNNER_BYTES = 32 * MIB
Used = TypeVar("Used")

_log = logging.getLogger(__name__)


class PoolLimits(Frozen):
    """What all runners together may use, and how long an artifact is held back whose runners die."""

    runner: RunnerLimits
    memory_max_bytes: int
    waiting_max: int
    hold_s: float = 30.0


class Pool:
    """Has at most one runner for a tenant and an artifact, so that no process sees the inputs of two tenants.

    `waiting_max` requests may wait for each artifact; the next is refused at once. If a runner dies, its request is
    asked once more. An artifact that ends two runners in a row, or whose golden cases fail, is held back for `hold_s`:
    its requests are refused with the reason.
    """

    def __init__(
        self, zygote: Zygote, blobs: Blobs, limits: PoolLimits, *, devices: Collection[str] = ("cpu",)
    ) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._devices = devices
        self._deployments: dict[DeploymentKey, Deployment] = {}
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

        Raises GraphRaised, AnswerTooLarge, InferenceTimeout, RunnerLost, PoolSaturated, DeviceUnavailable or
        ShuttingDown.
        """

        async def call(runner: Runner) -> list[Tensor]:
            on_turn()
            return await runner.infer(method, inputs, seed=seed)

        async with self._take_turn(tenant, artifact, digest) as deployment:
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

    @asynccontextmanager
    async def _take_turn(self, tenant: str, artifact: Artifact, digest: str) -> AsyncIterator[Deployment]:
        if self._closing:
            raise ShuttingDown("no more inference is taken")
        if artifact.device not in self._devices:
            raise DeviceUnavailable(
                f"the artifact is for {artifact.device}, and this service has none", devices=[*self._devices]
            )
        deployment = self._deployments.setdefault((tenant, digest), Deployment(tenant, artifact, digest))
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
        runners = {key: deployment.runner for key, deployment in self._deployments.items()}
        return {key: runner for key, runner in runners.items() if runner and runner.state is not RunnerState.GONE}

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
            used = await use(runner)
        except (GraphRaised, AnswerTooLarge):
            deployment.count_answer()
            raise
        except RunnerLost as error:
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed") from error
            deployment.count_death(error, self._limits.hold_s)
            deployment.refuse_if_held_back()
            raise
        deployment.count_answer()
        return used

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
        try:
            if not await self._make_room(expected_bytes):
                raise PoolSaturated("every runner is busy, and there is no memory for one more")
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed")
            deployment.runner = runner = Runner(
                deployment.artifact, deployment.digest, self._limits.runner, expected_bytes=expected_bytes
            )
            await runner.start(self._zygote, self._blobs)
        finally:
            deployment.starting = None
        seconds = round(time.monotonic() - began, 3)
        _log.info("runner ready", extra={"artifact": deployment.digest, "pid": runner.pid, "seconds": seconds})
        await self._make_room(0)
        return runner

    async def _make_room(self, needed_bytes: int) -> bool:
        """Evict idle runners, the least recently used first; whether there is room now.

        An artifact that is too large for the budget is served alone.
        """
        while (taken_bytes := self._resident_bytes()) and taken_bytes + needed_bytes > self._limits.memory_max_bytes:
            idle = [deployment for deployment in self._deployments.values() if deployment.is_idle]
            if not idle:
                return False
            oldest = min(idle, key=lambda deployment: deployment.used_at)
            _log.info("runner evicted", extra={"artifact": oldest.digest})
            del self._deployments[oldest.key]
            if oldest.runner is not None:
                await oldest.runner.close()
        return True

    def _resident_bytes(self) -> int:
        return sum(runner.resident_bytes for runner in self.runners.values())

    def _is_drained(self) -> bool:
        return not any(deployment.pending for deployment in self._deployments.values())

    def _finish_request(self, deployment: Deployment) -> None:
        deployment.pending -= 1
        deployment.used_at = time.monotonic()
        if deployment.is_forgettable:
            del self._deployments[deployment.key]
        if self._closing and self._is_drained():
            self._drained.set()
