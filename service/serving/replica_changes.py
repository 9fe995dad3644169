"""Replica changes: more runners of a model answer while those that do cannot keep up, and processors are idle.

Where nobody has set a number, the load of each deployment is looked at once a second. More runners than one are tried
beside the others, and end again if they do not answer so many more requests.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from service.domain.replica_count import Look, ReplicaCount
from service.serving.deployment import Deployment
from service.serving.pool_memory import PoolMemory
from service.serving.room import Need

# Less than this of one processor is idle: whoever starts takes time from others. Chosen.
_IDLE_MIN = 0.25
# Nobody looks while the database is away, for example, and an average over a longer time says nothing. Chosen.
_LOOK_MAX_S = 5.0

ANOTHER_MODEL_SETS_IT = "another model of the same artifact has the option `replicas`"

# What was seen of a deployment in so many seconds, apart from what all have in common.
Measure = Callable[[Deployment, float], Look]


def measure_load(deployment: Deployment, elapsed_s: float) -> Look:
    """Return what a deployment did since it was measured last, so long ago."""
    load = deployment.load.take()
    return Look(
        elapsed_s=elapsed_s,
        answers=load.answers,
        busy_s=load.busy_s,
        waits=bool(deployment.waiting),
        ready=deployment.answering_count,
        is_loading=deployment.is_filling,
    )


class ReplicaChanges:
    """Says how many runners are to answer a deployment whose models leave that to the service.

    So many `processors` may be used, and together they were idle for `idle_s` seconds; None: nobody knows. The further
    runners of all deployments have no more threads than that in all, however many models somebody asks.
    """

    def __init__(
        self,
        processors: int,
        idle_s: Callable[[], float | None],
        *,
        measure: Measure = measure_load,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processors = processors
        self._idle_s = idle_s
        self._measure = measure
        self._clock = clock
        self._looked_at, self._idle_before_s = clock(), idle_s()
        self._tried_at: dict[str, float] = {}  # by tenant

    def look_after(self, deployments: Sequence[Deployment], memory: PoolMemory) -> None:
        """Decide how many runners each of these is to have."""
        now = self._clock()
        elapsed_s = now - self._looked_at
        if elapsed_s <= 0:
            return
        self._looked_at, idle = now, self._take_idle(elapsed_s)
        looks = [self._measure(one, elapsed_s) for one in deployments]
        if elapsed_s > _LOOK_MAX_S:
            return
        tenants_in_the_way = _find_crowding_tenants(deployments, looks) if idle < _IDLE_MIN else set()
        for one, look in zip(deployments, looks, strict=True):
            if one.is_measured:
                one.measured.look(replace(look, idle=idle, in_the_way=one.tenant in tenants_in_the_way))
            elif one.measured.count > 1:
                one.measured = ReplicaCount()
        self._try_one(deployments, memory, now)

    def explain(self, deployment: Deployment | None, threads: int) -> tuple[int, str]:
        """Return how many runners with so many threads are to answer now, and why; there may be none yet."""
        if deployment is not None and any(wanted is not None for wanted in [*deployment.wanted.values()]):
            return deployment.replicas, ANOTHER_MODEL_SETS_IT
        if deployment is not None and deployment.artifact.device != "cpu":
            return 1, f"idle processors do not say what {deployment.artifact.device} has to spare"
        if self._processors < 2 * threads:
            why = f"a process computes with {threads}, and the service may use {self._processors}"
            return 1, f"there are no processors for more: {why}"
        if self._idle_before_s is None:
            return 1, "the kernel does not say how idle the processors are"
        return ReplicaCount().decision if deployment is None else deployment.measured.decision

    def _take_idle(self, elapsed_s: float) -> float:
        """Return how many processors had nothing to do since the look before."""
        before_s, self._idle_before_s = self._idle_before_s, self._idle_s()
        if before_s is None or self._idle_before_s is None:
            return 0.0
        return max(0.0, self._idle_before_s - before_s) / elapsed_s

    def _try_one(self, deployments: Sequence[Deployment], memory: PoolMemory, now: float) -> None:
        """Begin a trial, if none is going on: two would take the processors from each other.

        The tenant is next whose last trial is longest ago.
        """
        measured = [one for one in deployments if one.is_measured]
        if any(one.measured.is_trying for one in measured):
            return
        free = self._processors - sum((one.measured.count - 1) * one.threads for one in measured)
        wanted = [(one, count) for one in measured if (count := self._next_count(one, free)) > one.measured.count]
        if not wanted:
            return
        tenants, room = {one.tenant for one in deployments}, memory.room()
        self._tried_at = {tenant: at for tenant, at in self._tried_at.items() if tenant in tenants}
        for one, count in sorted(wanted, key=lambda its: self._tried_at.get(its[0].tenant, -math.inf)):
            if room.fits(Need(one.tenant, max(seat.admitted_bytes for seat in one.seats))):
                one.measured.begin(count)
                self._tried_at[one.tenant] = now
                return

    def _next_count(self, deployment: Deployment, free: int) -> int:
        """Return how many runners are worth a trial, where further ones may have so many threads in all."""
        threads, count = deployment.threads, deployment.measured.count
        most = min(self._processors // threads, count + max(0, free) // threads)
        return deployment.measured.next_count(threads, most)


def _find_crowding_tenants(deployments: Sequence[Deployment], looks: Sequence[Look]) -> set[str]:
    """Return the tenants whose runners have more threads than those of another one whose requests wait."""
    threads = Counter[str]()
    for one, look in zip(deployments, looks, strict=True):
        threads[one.tenant] += look.ready * one.threads
    waiting = {one.tenant for one, look in zip(deployments, looks, strict=True) if look.waits}
    fewest = min((threads[tenant] for tenant in waiting), default=math.inf)
    return {tenant for tenant, its in threads.items() if its > fewest}
