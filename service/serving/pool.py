"""The pool: which runner answers. It starts runners on first use, replaces those that die, and keeps to its memory."""

import asyncio
import logging
import math
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from service.domain.errors import DeviceUnavailable, PoolSaturated, ShuttingDown
from service.sandbox.limits import Limits
from service.sandbox.zygote import Zygote
from service.serving.runner import Runner, RunnerState
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.byte_units import MIB
from tracehouse.errors import AnswerTooLarge, GoldenCaseFailed, GraphRaised, RunnerLost
from tracehouse.tensors.tensor import Tensor

# What a runner is expected to take beside its weights until it is measured: 6 MiB for a tiny model, and activations.
_RUNNER_BYTES = 32 * MIB
# One death may be the machine's doing, out of memory for one; two in a row are the artifact's.
_DEATHS_MAX = 2

# A tenant, and the digest of an artifact.
_Key = tuple[str, str]

_log = logging.getLogger(__name__)


class Pool:
    """At most one runner per tenant and artifact: what one tenant sends never reaches a process that another asks.

    `waiting_max` requests may wait for it; the next is refused at once. A request whose runner dies is asked once
    more. An artifact that ends two runners in a row, or whose golden cases fail, is held back for `hold_s`: its
    requests are refused with the reason.
    """

    def __init__(
        self,
        zygote: Zygote,
        blobs: Blobs,
        *,
        limits: Limits,
        threads: int,
        memory_max_bytes: int,
        waiting_max: int,
        infer_timeout_s: float,
        answer_max_bytes: int = 64 * MIB,
        devices: Collection[str] = ("cpu",),
        load_timeout_s: float = 120.0,
        hold_s: float = 30.0,
    ) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._threads = threads
        self._memory_max_bytes = memory_max_bytes
        self._waiting_max = waiting_max
        self._infer_timeout_s = infer_timeout_s
        self._answer_max_bytes = answer_max_bytes
        self._devices = devices
        self._load_timeout_s = load_timeout_s
        self._hold_s = hold_s
        self._lines: dict[_Key, _Line] = {}
        self._closing = False
        self._closed = False
        self._quiet = asyncio.Event()

    async def infer(
        self, tenant: str, artifact: Artifact, digest: str, method: str, inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """The outputs in the contract's order, for inputs that the contract accepted.

        Raises GraphRaised, AnswerTooLarge, InferenceTimeout, RunnerLost, PoolSaturated, DeviceUnavailable or
        ShuttingDown.
        """
        if self._closing:
            raise ShuttingDown("no more inference is taken")
        if artifact.device not in self._devices:
            raise DeviceUnavailable(
                f"the artifact is for {artifact.device}, and this service has none", devices=[*self._devices]
            )
        line = self._lines.setdefault((tenant, digest), _Line(tenant, artifact, digest))
        line.refuse_if_held()
        if line.inside > self._waiting_max:
            raise PoolSaturated(f"{self._waiting_max} requests wait for this artifact", waiting_max=self._waiting_max)
        line.inside += 1
        try:
            async with line.turn:
                return await self._answer(line, method, inputs)
        finally:
            self._leave(line)

    @property
    def runners(self) -> dict[_Key, Runner]:
        """Those that live, by their tenant and their artifact's digest."""
        lines = self._lines.items()
        return {key: line.runner for key, line in lines if line.runner and line.runner.state is not RunnerState.GONE}

    async def close(self, grace_s: float) -> None:
        """Take no more; let what was taken finish for `grace_s` seconds; then kill every runner."""
        self._closing = True
        if self._is_quiet():
            self._quiet.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._quiet.wait()
        self._closed = True
        starting = [line.starting for line in self._lines.values() if line.starting is not None]
        await asyncio.gather(*(runner.close() for runner in self.runners.values()))
        await asyncio.gather(*starting, return_exceptions=True)

    async def _answer(self, line: "_Line", method: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        try:
            return await self._try(line, method, inputs)
        except RunnerLost as error:
            _log.warning("runner lost", extra={"artifact": line.digest, "reason": error.detail})
            line.refuse_if_held()
        return await self._try(line, method, inputs)

    async def _try(self, line: "_Line", method: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        if self._closed:
            raise ShuttingDown("the service stopped before this was computed")
        line.refuse_if_held()
        try:
            runner = await self._runner(line)
            outputs = await runner.infer(method, inputs)
        except (GraphRaised, AnswerTooLarge):
            line.deaths = 0
            raise
        except RunnerLost as error:
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed") from error
            line.count_death(error, self._hold_s)
            line.refuse_if_held()
            raise
        line.deaths = 0
        return outputs

    async def _runner(self, line: "_Line") -> Runner:
        if line.runner is not None:
            await line.runner.settle()
            if line.runner.state is RunnerState.READY:
                return line.runner
        if line.starting is None:
            line.starting = asyncio.create_task(self._start(line))
        # Shielded: a caller that leaves does not take the runner with it, which the next one waits for.
        return await asyncio.shield(line.starting)

    async def _start(self, line: "_Line") -> Runner:
        began = time.monotonic()
        expected_bytes = line.artifact.archive.byte_size + _RUNNER_BYTES
        try:
            if not await self._make_room(expected_bytes):
                raise PoolSaturated("every runner is busy, and there is no memory for one more")
            if self._closed:
                raise ShuttingDown("the service stopped before this was computed")
            line.runner = runner = Runner(
                line.artifact,
                line.digest,
                expected_bytes=expected_bytes,
                infer_timeout_s=self._infer_timeout_s,
                answer_max_bytes=self._answer_max_bytes,
            )
            await runner.start(
                self._zygote, self._blobs, self._limits, threads=self._threads, timeout_s=self._load_timeout_s
            )
        finally:
            line.starting = None
        seconds = round(time.monotonic() - began, 3)
        _log.info("runner ready", extra={"artifact": line.digest, "pid": runner.pid, "seconds": seconds})
        await self._make_room(0)
        return runner

    async def _make_room(self, needed_bytes: int) -> bool:
        """Evict idle runners, the least recently used first. An artifact too large for the budget is served alone."""
        while (taken_bytes := self._resident_bytes()) and taken_bytes + needed_bytes > self._memory_max_bytes:
            idle = [line for line in self._lines.values() if line.is_idle]
            if not idle:
                return False
            oldest = min(idle, key=lambda line: line.used_at)
            _log.info("runner evicted", extra={"artifact": oldest.digest})
            del self._lines[oldest.key]
            if oldest.runner is not None:
                await oldest.runner.close()
        return True

    def _resident_bytes(self) -> int:
        return sum(runner.resident_bytes for runner in self.runners.values())

    def _is_quiet(self) -> bool:
        return not any(line.inside for line in self._lines.values())

    def _leave(self, line: "_Line") -> None:
        line.inside -= 1
        line.used_at = time.monotonic()
        if line.is_forgettable:
            del self._lines[line.key]
        if self._closing and self._is_quiet():
            self._quiet.set()


@dataclass(frozen=True, slots=True)
class _Hold:
    until: float
    error: RunnerLost


@dataclass(eq=False)
class _Line:
    """One tenant's requests for one artifact, and the runner that they wait for. `deaths` are those in a row."""

    tenant: str
    artifact: Artifact
    digest: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: int = 0
    runner: Runner | None = None
    starting: "asyncio.Task[Runner] | None" = None
    deaths: int = 0
    hold: _Hold | None = None
    used_at: float = 0.0

    @property
    def key(self) -> _Key:
        return self.tenant, self.digest

    @property
    def is_idle(self) -> bool:
        return self.inside == 0 and self.runner is not None and self.runner.state is RunnerState.READY

    @property
    def is_forgettable(self) -> bool:
        lives = self.starting is not None or (self.runner is not None and self.runner.state is not RunnerState.GONE)
        return self.inside == 0 and not lives and self.hold is None

    def count_death(self, error: RunnerLost, hold_s: float) -> None:
        """Hold the artifact back after two in a row; at once where another runner would say the same."""
        if self.runner is not None and self.runner.ended_with_zygote:
            return
        self.deaths += 1
        if self.deaths >= _DEATHS_MAX or isinstance(error, GoldenCaseFailed):
            self.deaths = 0
            self.hold = _Hold(time.monotonic() + hold_s, error)
            _log.error("artifact held back", extra={"artifact": self.digest, "reason": error.detail, "seconds": hold_s})

    def refuse_if_held(self) -> None:
        if self.hold is None:
            return
        left_s = self.hold.until - time.monotonic()
        if left_s <= 0:
            self.hold = None
            return
        error = self.hold.error
        raise type(error)(error.detail, **error.facts, held_back=True, retry_after_s=math.ceil(left_s))
