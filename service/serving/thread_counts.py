"""Thread counts: with how many threads each artifact is answered here, as was measured.

The results are files in a directory, one for each artifact, kind of machine and version of torch, so that the next
start takes them up.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from service.domain.thread_count import ThreadCount, ThreadStep
from service.sandbox.cancellation import Cancellation
from service.serving.machine_files import MachineFiles
from service.serving.trial_rules import why_no_trial
from service.serving.trial_thread import TrialThread
from tracehouse.artifact.manifest import Artifact

# Measures an artifact with up to so many threads, on the thread that calls it; None if it had to give way.
RunTrial = Callable[[Artifact, int, Cancellation], Sequence[ThreadStep] | None]

_log = logging.getLogger(__name__)


class ThreadCounts:
    """The results, and the one measurement that runs. All but `take_up` and `find` belongs to the event loop."""

    def __init__(
        self, directory: Path, run: RunTrial, *, threads_max: int, machine: Callable[[int], str], torch_version: str
    ) -> None:
        """`machine` names the kind of this machine with so many threads."""
        self._files = MachineFiles(directory, ThreadCount, machine=machine(threads_max), torch_version=torch_version)
        self._run = run
        self._threads_max = threads_max
        self._trial = TrialThread("thread-count")

    def remembered(self, digest: str) -> ThreadCount | None:
        """Return what is known of the artifact, if it was taken up or measured since the start."""
        return self._files.remembered(digest)

    def find(self, digest: str) -> ThreadCount | None:
        """Return what is known of the artifact. It may read a file, on any thread."""
        return self._files.find(digest)

    def take_up(self, digest: str) -> None:
        """Remember what a file has of the artifact. Any thread may ask it."""
        if self._files.remembered(digest) is None:
            self._files.take_up(digest)

    async def measure(self, artifact: Artifact, digest: str) -> ThreadCount | None:
        """Return the result for the artifact, which is kept; None if the measurement had to give way.

        One runs at a time.
        """
        return await self._trial.run(partial(self._measure, artifact, digest))

    async def take_back(self, digest: str, why: str) -> None:
        """Have as many threads compute as before the measurement, on this kind of machine."""
        found = self.remembered(digest)
        if found is None or found.threads is None:
            return
        _log.warning("a number of threads was taken back", extra={"artifact": digest, "reason": why})
        await asyncio.to_thread(self._files.keep, found.without(why))

    def give_way(self) -> None:
        """End the measurement that runs: others need the memory. It is made again later."""
        self._trial.give_way()

    def close(self) -> None:
        self._trial.close()

    def _measure(self, artifact: Artifact, digest: str, cancellation: Cancellation) -> ThreadCount | None:
        if (known := self._files.take_up(digest)) is not None:
            return known
        why = why_fixed(artifact)
        steps = [] if why is not None else self._run(artifact, self._threads_max, cancellation)
        if steps is None:
            return None
        now, machine, torch_version = datetime.now(UTC), self._files.machine, self._files.torch_version
        if why is None:
            found = ThreadCount.of(digest, machine, torch_version, now, steps)
        else:
            found = ThreadCount(digest=digest, machine=machine, torch=torch_version, measured_at=now, why=why)
        self._files.keep(found)
        _log.info("threads measured", extra={"artifact": digest, "threads": found.threads, "reason": found.why})
        return found


def why_fixed(artifact: Artifact) -> str | None:
    """Return why the number of threads stays as it is, as far as the artifact's manifest says it; or None.

    With another number, sums are added up in another order, and the last digits of an answer may change.
    """
    if (why := why_no_trial(artifact)) is not None:
        return why
    if artifact.contract.methods["forward"].stochastic:
        return "it draws random numbers, and a seed is to give the same answer again"
    return None
