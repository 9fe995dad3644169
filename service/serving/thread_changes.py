"""Thread changes: with how many threads a model is answered, and how another number takes the place of the usual one.

Where nobody has set a number, it is measured beside the runner, which answers with the usual number meanwhile. Then a
runner with the number that was found is started beside it, and the requests go to that one once it is ready.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from service.domain.serving_options import ServingOptions
from service.domain.thread_count import ThreadCount
from service.serving.closing import Closing
from service.serving.deployment import Deployment, Deployments
from service.serving.pool_memory import PoolMemory
from service.serving.thread_counts import ThreadCounts
from tracehouse.errors import ServiceError

# A measurement has one process, with what its calls need beside the weights.
_TRIAL_TIMES_RUNNER = 2
# After one that had no memory, or gave way, the next one begins so much later at the earliest. Chosen.
_AGAIN_S = 60.0
# A race of forms waits for the number of threads: for two looks, and at most so long until that is measured. Chosen.
_RACE_LATER_S, _RACE_WAITS_S = 2.0, 60.0

_log = logging.getLogger(__name__)


class ThreadChanges:
    """Says with how many threads a model is answered. Without `counts`, that is `usual` where no number is set.

    A model may be given `threads_max` at most. `run` has work done that nobody waits for.
    """

    def __init__(
        self,
        counts: ThreadCounts | None,
        usual: int,
        threads_max: int,
        *,
        deployments: Deployments,
        memory: PoolMemory,
        closing: Closing,
        run: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._counts = counts
        self._usual = usual
        self._threads_max = threads_max
        self._deployments = deployments
        self._memory = memory
        self._closing = closing
        self._run = run
        self._next_at: dict[str, float] = {}  # by digest
        self._is_measuring = False

    @property
    def is_measuring(self) -> bool:
        return self._is_measuring

    @property
    def puts_races_off(self) -> bool:
        """Whether a race of forms waits until the threads are known."""
        return self._counts is not None

    def take_up(self, digest: str) -> None:
        """Remember what was measured of the artifact. It may read a file, on any thread."""
        if self._counts is not None:
            self._counts.take_up(digest)

    def expect(self, deployment: Deployment) -> None:
        """Have no race of a new deployment's forms begin before it is known whether its threads are measured."""
        if self._counts is not None and deployment.threads == self._usual:
            deployment.race_at = time.monotonic() + _RACE_LATER_S

    def threads(self, tenant: str, digest: str, options: ServingOptions) -> int:
        """Return with how many threads requests are answered now, of an artifact of a model with these options.

        What was measured holds once a runner with so many threads is ready, or none with the usual number is there.
        """
        if options.threads is not None:
            return min(options.threads, self._threads_max)
        found = self._measured(digest, options)
        if found is None or found == self._usual:
            return self._usual
        former = self._deployments.get((tenant, digest, self._usual))
        if former is None or not former.is_answering:
            return found
        new = self._deployments.get((tenant, digest, found))
        return found if new is not None and new.is_answering else self._usual

    def explain(self, digest: str, options: ServingOptions, threads: int) -> tuple[str, ThreadCount | None]:
        """Return why so many threads compute for an artifact of a model with these options, and what was measured."""
        if options.threads is not None:
            is_less = threads < options.threads
            return "the model's option `threads`" + (", and there are no more processors" if is_less else ""), None
        if self._counts is None:
            return "RUNNER_THREADS", None
        if options.bitwise:
            return "it is served bitwise: another number could change the last digits of an answer", None
        found = self._counts.find(digest)
        if found is None:
            return "it is not measured yet: that begins after its first answers, once nobody waits for one", None
        if found.threads not in (None, threads):
            return f"{found.threads} do once a process with so many is ready: {found.why}", found
        return found.why, found

    def look_after(
        self, deployment: Deployment, options: Collection[ServingOptions], fill: Callable[[Deployment], object]
    ) -> None:
        """Have the artifact measured, or a runner started with the number that was found, if it is time for that.

        The `options` are those of the models by whose names the deployment was asked. `fill` starts a runner that is
        missing beside others, if there is room for it.
        """
        counts = self._counts
        if deployment.is_beside and (deployment.is_answering or not self._is_answered_as_usual(deployment)):
            deployment.is_beside = False
            self._deployments.forget_if_unused(deployment)
        if counts is None or deployment.threads != self._usual or not deployment.is_answering:
            return
        if self._closing.has_begun or all(one.bitwise or one.threads is not None for one in options):
            return
        found = counts.remembered(deployment.digest)
        if found is None:
            self._measure_if_due(counts, deployment)
        elif found.threads is not None and found.threads != self._usual:
            fill(self._beside(deployment, found.threads))
        else:
            return
        now = time.monotonic()
        if found is not None or self._is_measuring or now < deployment.made_at + _RACE_WAITS_S:
            deployment.race_at = max(deployment.race_at, now + _RACE_LATER_S)

    def take_back(self, deployment: Deployment, why: str) -> None:
        """Have the usual number compute from now on, if a runner failed with the one that was measured."""
        counts = self._counts
        if counts is None or deployment.threads == self._usual:
            return
        found = counts.remembered(deployment.digest)
        if found is not None and found.threads == deployment.threads:
            self._run(counts.take_back(deployment.digest, why))

    def give_way(self) -> None:
        """End what a measurement has in memory: a runner starts, which needs it more."""
        if self._counts is not None:
            self._counts.give_way()

    def close(self) -> None:
        """End the measurement that runs, and have none begin."""
        if self._counts is not None:
            self._counts.close()

    def _measured(self, digest: str, options: ServingOptions) -> int | None:
        if self._counts is None or options.bitwise:
            return None
        found = self._counts.remembered(digest)
        return None if found is None else found.threads

    def _is_answered_as_usual(self, deployment: Deployment) -> bool:
        usual = self._deployments.get((deployment.tenant, deployment.digest, self._usual))
        return usual is not None and usual.is_answering

    def _measure_if_due(self, counts: ThreadCounts, deployment: Deployment) -> None:
        """Measure the artifact if nobody waits for an answer of any, and there is room beside all that is there.

        Requests that wait would make it say how busy the machine is, and would be slower meanwhile.
        """
        if self._is_measuring or any(other.pending for other in self._deployments.values()):
            return
        now = time.monotonic()
        if now < self._next_at.get(deployment.digest, -math.inf):
            return
        byte_size = _TRIAL_TIMES_RUNNER * max(seat.admitted_bytes for seat in deployment.seats)
        self._put_off(deployment.digest)
        if self._memory.has_room(deployment.tenant, byte_size):
            self._is_measuring = True
            self._run(self._measure(counts, deployment))

    async def _measure(self, counts: ThreadCounts, deployment: Deployment) -> None:
        try:
            await counts.measure(deployment.artifact, deployment.digest)
        except ServiceError as error:  # a file is missing, or nothing can be forked
            _log.warning("threads were not measured", extra={"artifact": deployment.digest, "reason": error.detail})
        finally:
            self._is_measuring = False
            self._put_off(deployment.digest)

    def _put_off(self, digest: str) -> None:
        now = time.monotonic()
        self._next_at = {one: at for one, at in self._next_at.items() if at > now}
        self._next_at[digest] = now + _AGAIN_S

    def _beside(self, deployment: Deployment, threads: int) -> Deployment:
        """Return the deployment that is to take the place of this one."""
        key = deployment.tenant, deployment.digest, threads
        found = self._deployments.get(key)
        if found is None:
            self._memory.expect_as(key, deployment.key)
            found = self._deployments[key] = Deployment(
                deployment.tenant, deployment.artifact, *key[1:], deployment.on_free, model=deployment.model
            )
        found.is_beside = found.is_beside or not found.is_taken
        return found
