"""The trial thread: what is found out about artifacts beside the runners, on a thread, one thing at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.sandbox.cancellation import Cancellation
from tracehouse.artifact.manifest import Artifact
from tracehouse.findings.verdict import Verdict

T = TypeVar("T")


class TrialThread:
    """All of it belongs to the event loop, but for the work, which ends soon when its cancellation is set."""

    def __init__(self, name: str) -> None:
        self._cancellation: Cancellation | None = None
        self._thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[Cancellation], T]) -> T:
        """Do the work. Nothing else may be going on."""
        assert self._cancellation is None
        cancellation = self._cancellation = Cancellation()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, cancellation)
        finally:
            self._cancellation = None

    def give_way(self) -> None:
        """End the work that is going on: others need the memory."""
        if self._cancellation is not None:
            self._cancellation.set("giving way")

    def close(self) -> None:
        self.give_way()
        self._thread.shutdown(wait=False, cancel_futures=True)


def why_no_trial(artifact: Artifact, what: str) -> str | None:
    """Return why other ways to compute an artifact are not compared with how it was saved, as far as its manifest says
    it; or None. `what` is done with it, in words: "forms are raced"."""
    check = artifact.check
    if artifact.device != "cpu":
        return f"{what} on the CPU, and it is for {artifact.device}"
    if check.verdict not in (Verdict.VERIFIED, Verdict.RESTRICTED):
        return f"its verdict is {check.verdict.value}: nobody knows which answers are right"
    if check.tolerance == 0:
        return "its request wants equal answers, bit by bit: check.check_tolerance is 0"
    if artifact.form != "traced" or artifact.training:
        return "only what was traced in eval mode as a whole runs the same operators in each call"
    if [*artifact.contract.methods] != ["forward"]:
        return "it has other methods than forward"
    return None
