"""The live checker: has a share of the answers compared with those of the model in Python, beside all requests.

What is drawn waits here for its tenant's turn, and nobody waits for it. If too much waits, something is dropped.
"""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from service.domain.errors import DiskFull, FilesUnavailable, StorageQuotaExceeded
from service.domain.live_check import (
    LIVE_COUNTEREXAMPLES_MAX,
    LiveCall,
    LiveCheck,
    LiveCounterexample,
    LiveDifference,
    LiveOutcome,
    LiveResult,
)
from service.domain.quotas import Quotas
from service.serving.statistics import VersionKey
from service.storage.allowances import Allowance
from service.storage.database import Store
from tracehouse.byte_units import MIB
from tracehouse.errors import ServiceError
from tracehouse.frozen import Frozen
from tracehouse.reproducer.counterexamples import encode_arrays

# What a process is expected to take beside the weights until it is measured. Chosen.
_PROCESS_BYTES = 64 * MIB
_NO_ROOM = "the memory of the runners (POOL_MEMORY_MIB) has no room for the model in Python"
# What is remembered of methods that cannot be checked, and of versions whose counts are not stored yet.
_REMEMBERED_MAX = 10_000

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class LiveCheckLimits(Frozen):
    """Which share of the answers is checked, and what may wait for it. All but the share is chosen.

    A model's process stays for `idle_s` seconds after its last call, and is asked at most `turn_calls` calls before it
    is another tenant's turn. What was found is stored after `stored_every_s` seconds; of answers that differ, after
    `different_every_s`. A method that could not run is not tried again for `hold_s` seconds.
    """

    share: float
    waiting_max: int = 64
    waiting_max_bytes: int = 64 * MIB
    turn_calls: int = 16
    idle_s: float = 30.0
    stored_every_s: float = 5.0
    different_every_s: float = 1.0
    hold_s: float = 300.0
    counterexample_max_bytes: int = 8 * MIB


class Twins(Protocol):
    """Asks models in Python: at most one process lives at a time. All without another word is called on one thread."""

    def check(self, calls: Sequence[LiveCall]) -> Sequence[LiveOutcome]:
        """Return what became of the first of these calls of one tenant and one artifact: of some, or of all.

        None of them if this was stopped.
        """

    def has(self, tenant: str, digest: str) -> bool:
        """Whether the process lives, and has the model of this artifact. It may be asked on any thread."""

    @property
    def resident_bytes(self) -> int:
        """The memory that the process takes, if there is one. It may be asked on any thread."""

    def end(self) -> None:
        """End the process, if there is one."""

    def give_way(self) -> None:
        """End the process now, from any thread. What it was asked is to be asked again."""

    def stop(self) -> None:
        """End the process now, from any thread, and start none any more."""


class LiveChecker:
    """Checks one call after the other. All methods belong to the event loop, and none of them waits but `close`."""

    def __init__(
        self,
        store: Store,
        twins: Twins,
        limits: LiveCheckLimits,
        quotas: Quotas,
        has_room: Callable[[str, int], bool] = lambda *_: True,
    ) -> None:
        """`has_room` says whether there is memory for a tenant's process that takes so many bytes."""
        self._store = store
        self._has_room = has_room
        self._twins = twins
        self._limits = limits
        self._quotas = quotas
        self._thread = ThreadPoolExecutor(1, "live-check")
        self._waiting = _WaitingCalls(limits)
        self._held: dict[tuple[str, str, str], tuple[float, str]] = {}  # until when a method is not tried, and why
        self._unstored: dict[VersionKey, _Unstored] = {}
        self._stored_at = time.monotonic()
        self._has_process = False
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.asked = 0
        self.results: Counter[LiveResult] = Counter(dict.fromkeys(LiveResult, 0))
        self.different: dict[
            VersionKey, int
        ] = {}  # answers that were not those of the model, of the last such versions

    def draws(self) -> bool:
        """Whether the next answer is to be checked."""
        return random.random() < self._limits.share

    def offer(self, call: LiveCall) -> None:
        """Have an answer checked, unless too much waits."""
        self.asked += 1
        self._unstored_of(call).counts["asked"] += 1
        if self._is_closing:
            self._count(call, LiveOutcome(LiveResult.DROPPED))
            return
        if not self._is_held(call):
            self._waiting.put(call)
            self._drop_surplus()
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        self._woken.set()

    @property
    def resident_bytes(self) -> int:
        """The memory that the process takes, if there is one."""
        return self._twins.resident_bytes

    def give_way(self) -> None:
        """End the process now: a runner needs the memory."""
        self._twins.give_way()

    async def close(self) -> None:
        """Drop what waits, end the process, and store what was found."""
        if self._is_closing:
            return
        self._is_closing = True
        self._twins.stop()
        self._woken.set()
        if self._task is not None:
            await self._task
        while calls := self._waiting.take_turn():
            for call in calls:
                self._count(call, LiveOutcome(LiveResult.DROPPED))
        await self._on_thread(self._twins.end)
        await self._store_found()
        self._thread.shutdown(wait=False)

    async def _work(self) -> None:
        while not self._is_closing:
            if calls := self._waiting.take_turn():
                await self._check(calls)
            else:
                await self._wait()
            if self._unstored and time.monotonic() >= self._store_at:
                await self._store_found()

    async def _wait(self) -> None:
        """Wait for a call, or until something is to be stored. When none has come for a while, end the process."""
        self._woken.clear()
        idle_at = time.monotonic() + self._limits.idle_s
        while not self._woken.is_set():
            ends = [idle_at] * self._has_process + [self._store_at] * bool(self._unstored)
            try:
                async with asyncio.timeout(max(0.0, min(ends) - time.monotonic()) if ends else None):
                    await self._woken.wait()
            except TimeoutError:
                if self._has_process and time.monotonic() >= idle_at:
                    self._has_process = False
                    await self._on_thread(self._twins.end)
                if self._unstored and time.monotonic() >= self._store_at:
                    return

    async def _check(self, calls: Sequence[LiveCall]) -> None:
        first = calls[0]
        if not self._twins.has(first.tenant, first.digest):
            if self._twins.resident_bytes:  # that of another model
                await self._on_thread(self._twins.end)
            if not self._has_room(first.tenant, first.archive_bytes + _PROCESS_BYTES):
                for call in calls:
                    self._count(call, LiveOutcome(LiveResult.COULD_NOT_RUN, _NO_ROOM))
                return
        self._has_process = True
        outcomes: Sequence[LiveOutcome]
        try:
            outcomes = await self._on_thread(self._twins.check, calls)
        except Exception:  # noqa: BLE001 - whatever it is, the answers that come next are to be checked
            _log.exception("answers could not be checked")
            outcomes = [LiveOutcome(LiveResult.COULD_NOT_RUN, "a fault of the service")] * len(calls)
        for call, outcome in zip(calls, outcomes, strict=False):
            self._count(call, outcome)
        left = calls[len(outcomes) :]
        self._waiting.put_back([call for call in left if not self._is_held(call)])
        self._drop_surplus()

    def _drop_surplus(self) -> None:
        while (dropped := self._waiting.take_surplus()) is not None:
            self._count(dropped, LiveOutcome(LiveResult.DROPPED))

    def _count(self, call: LiveCall, outcome: LiveOutcome) -> None:
        self.results[outcome.result] += 1
        unstored = self._unstored_of(call)
        unstored.counts[outcome.result.value] += 1
        unstored.why = outcome.why or unstored.why
        if outcome.lasts:
            self._held[call.method_key] = time.monotonic() + self._limits.hold_s, outcome.why or ""
            _forget_oldest(self._held)
        if (found := outcome.found) is None:
            return
        self.different[call.version_key] = self.different.pop(call.version_key, 0) + 1
        _forget_oldest(self.different)
        if len(unstored.found) < LIVE_COUNTEREXAMPLES_MAX and found.byte_size <= self._limits.counterexample_max_bytes:
            unstored.found.append(found)

    def _unstored_of(self, call: LiveCall) -> "_Unstored":
        found = self._unstored.get(call.version_key)
        if found is None:
            found = self._unstored[call.version_key] = _Unstored()
            _forget_oldest(self._unstored)
        return found

    def _is_held(self, call: LiveCall) -> bool:
        """Whether the call's method could not run a while ago. Then the call is counted, and not tried."""
        until, why = self._held.get(call.method_key, (0.0, ""))
        if time.monotonic() < until:
            self._count(call, LiveOutcome(LiveResult.COULD_NOT_RUN, why))
            return True
        self._held.pop(call.method_key, None)
        return False

    @property
    def _store_at(self) -> float:
        """When what was found is to be stored: seldom, for each version is looked up anew after a write."""
        is_urgent = any(one.counts[LiveResult.DIFFERENT.value] for one in self._unstored.values())
        return self._stored_at + (self._limits.different_every_s if is_urgent else self._limits.stored_every_s)

    async def _store_found(self) -> None:
        unstored, self._unstored = self._unstored, {}
        for key, one in unstored.items():
            try:
                await self._on_thread(self._store_one, key, one)
            except ServiceError as error:  # the database does not answer
                _log.warning("what the live check found could not be stored", extra={"error": error.detail})
                self._unstored[key] = one.add(self._unstored.get(key, _Unstored()))
                _forget_oldest(self._unstored)
            except Exception:  # noqa: BLE001 - what was found of others is to be stored
                _log.exception("what the live check found could not be stored")
        self._stored_at = time.monotonic()

    def _store_one(self, key: VersionKey, unstored: "_Unstored") -> None:
        tenant, name, version = key
        with self._store.allowances.open(tenant, self._quotas) as allowance:
            kept = []
            if unstored.found:
                stored = self._store.live_checks.find(tenant, [name]).get((name, version), LiveCheck())
                kept = [self._keep(one, allowance) for one in unstored.found[: stored.may_keep]]
            found = LiveCheck(**unstored.counts, why=unstored.why, counterexamples=[one for one in kept if one])
            moved = self._store.live_checks.add(tenant, name, version, found)
        if found.different:
            about = {"tenant": tenant, "model": f"{name}:{version}", "answers": found.different}
            _log.warning("answers are not those of the model", extra=about)
        for one in moved:
            about = {"tenant": tenant, "reference": one.reference, "version": one.version, "before": version}
            _log.warning("a model was moved back", extra=about)

    def _keep(self, found: LiveDifference, allowance: Allowance) -> LiveCounterexample | None:
        """Store a counterexample; None if there is no room for it: its difference is counted all the same."""
        arrays = encode_arrays(found.call.inputs, found.eager, found.call.answer)
        try:
            allowance.take(len(arrays))
            allowance.hold_files()
            with self._store.blobs.stage() as staged:
                staged.write(arrays)
                blob = staged.commit()
        except (StorageQuotaExceeded, FilesUnavailable, DiskFull) as error:
            _log.warning("a counterexample could not be stored", extra={"error": error.detail})
            return None
        return LiveCounterexample(
            digest=found.call.digest,
            method=found.call.method,
            inputs=[tensor.spec for tensor in found.call.inputs],
            output=found.difference.leaf,
            difference=found.difference.what,
            eager=found.difference.eager,
            artifact=found.difference.artifact,
            arrays=blob,
            found_at=datetime.now(UTC),
        )

    async def _on_thread(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *args, **kwargs))


@dataclass
class _Unstored:
    """What was found of a version, and is not stored yet."""

    counts: Counter[str] = field(default_factory=Counter)
    why: str | None = None
    found: list[LiveDifference] = field(default_factory=list)

    def add(self, later: "_Unstored") -> "_Unstored":
        """Return both together."""
        found = [*self.found, *later.found][:LIVE_COUNTEREXAMPLES_MAX]
        return _Unstored(self.counts + later.counts, later.why or self.why, found)


class _WaitingCalls:
    """The calls that wait, by tenants.

    Next is the tenant whose turn was longest ago, and of its calls the oldest one, with others of the same artifact. If
    more calls wait than may, or too many bytes, the tenant with the most loses its newest.
    """

    def __init__(self, limits: LiveCheckLimits) -> None:
        self._limits = limits
        self._tenants: dict[str, deque[LiveCall]] = {}  # the one whose turn was longest ago comes first
        self._bytes: Counter[str] = Counter()
        self._count = 0

    def put(self, call: LiveCall) -> None:
        self._tenants.setdefault(call.tenant, deque()).append(call)
        self._bytes[call.tenant] += call.held_bytes
        self._count += 1

    def put_back(self, calls: Sequence[LiveCall]) -> None:
        """Let calls that were taken come before the others of their tenant."""
        for call in reversed(calls):
            self.put(call)
            self._tenants[call.tenant].rotate(1)

    def take_turn(self) -> list[LiveCall]:
        """Take what is checked next, at most `turn_calls` calls; none if nothing waits."""
        if not self._tenants:
            return []
        tenant, waiting = next(iter(self._tenants.items()))
        digest = waiting[0].digest
        taken = [call for call in waiting if call.digest == digest][: self._limits.turn_calls]
        del self._tenants[tenant]  # it comes after all others now
        for call in taken:
            waiting.remove(call)
            self._forget(call)
        if waiting:
            self._tenants[tenant] = waiting
        return taken

    def take_surplus(self) -> LiveCall | None:
        """Take a call that is too much; None if there is none."""
        if self._bytes.total() > self._limits.waiting_max_bytes:
            tenant = max(self._tenants, key=lambda name: self._bytes[name])
        elif self._count > self._limits.waiting_max:
            tenant = max(self._tenants, key=lambda name: len(self._tenants[name]))
        else:
            return None
        call = self._tenants[tenant].pop()
        if not self._tenants[tenant]:
            del self._tenants[tenant]
        self._forget(call)
        return call

    def _forget(self, call: LiveCall) -> None:
        self._count -= 1
        self._bytes[call.tenant] -= call.held_bytes
        if not self._bytes[call.tenant]:
            del self._bytes[call.tenant]


def _forget_oldest(remembered: dict[Any, Any]) -> None:
    if len(remembered) > _REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
