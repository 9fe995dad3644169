"""A seat of a deployment: the runner in it, which is one of those that answer the same requests."""

import asyncio
import math
import time
from dataclasses import dataclass

from service.serving.room import Activity, Holding
from service.serving.runner import Runner, RunnerState
from service.serving.turn import Turn

# Looking costs some tens of microseconds, as much as a small model's answer.
_MEASURED_EVERY_S = 0.01

_LOADED = (RunnerState.READY, RunnerState.BUSY)
_GOES_ON = (RunnerState.STARTING, *_LOADED)


@dataclass(eq=False)
class Seat:
    """`turn` belongs to who uses the runner. `number` is its own within the deployment, and is not used again.

    `admitted_bytes` is what its runner was admitted to the pool's memory with, or waits for. In one that `is_surplus`,
    the runner answers no more requests, and ends.
    """

    number: int
    turn: Turn
    runner: Runner | None = None
    starting: "asyncio.Task[Runner] | None" = None
    admitted_bytes: int = 0
    waits_for_room: bool = False
    used_at: float = 0.0
    measured_at: float = -math.inf
    is_surplus: bool = False

    @property
    def has_runner(self) -> bool:
        """Whether a process of it lives, or is being forked."""
        return self.runner is not None and self.runner.state is not RunnerState.GONE

    @property
    def is_taken(self) -> bool:
        """Whether a process of it lives, or is to live soon."""
        return self.starting is not None or self.has_runner

    @property
    def is_ready(self) -> bool:
        return self.runner is not None and self.runner.state is RunnerState.READY

    @property
    def is_answering(self) -> bool:
        """Whether its runner has loaded, and takes requests now or after the one that it computes."""
        runner = self.runner
        return runner is not None and runner.state in _LOADED and not self.is_surplus

    @property
    def goes_on(self) -> bool:
        """Whether its runner loads or answers, and does not end after that."""
        runner = self.runner
        return runner is not None and runner.state in _GOES_ON and not self.is_surplus

    @property
    def is_free(self) -> bool:
        """Whether its runner can be asked now."""
        return not self.turn.is_taken and self.is_ready and not self.is_surplus

    @property
    def is_vacant(self) -> bool:
        """Whether a runner may be started in it, and nobody is about to."""
        return not self.turn.is_taken and not self.is_taken and not self.is_surplus

    def count_answer(self) -> bool:
        """Count an answer; whether the runner has grown beyond what it was admitted with."""
        now, runner = time.monotonic(), self.runner
        self.used_at = now
        if runner is None or now - self.measured_at < _MEASURED_EVERY_S:
            return False
        self.measured_at = now
        return runner.resident_bytes > self.admitted_bytes

    def holding(
        self, key: tuple[str, str, int], answer_s: float, *, is_wanted: bool, is_pinned: bool, is_further: bool
    ) -> Holding | None:
        """Return what it has of the pool's memory; None if nothing.

        Whoever has the turn, but has not asked the runner yet, needs at most `answer_s` seconds from now. It
        `is_wanted` if requests that are not answered yet may be its own.
        """
        if self.runner is not None and self.has_runner:
            activity, free_at = self._activity(self.runner, answer_s, is_wanted=is_wanted)
            byte_size = self.runner.resident_bytes
        elif self.waits_for_room:
            byte_size, activity, free_at = self.admitted_bytes, Activity.WAITING, time.monotonic() + answer_s
        else:
            return None
        return Holding(*key, byte_size, self.admitted_bytes, free_at, activity, is_pinned, self.number, is_further)

    def _activity(self, runner: Runner, answer_s: float, *, is_wanted: bool) -> tuple[Activity, float]:
        if runner.state is RunnerState.STARTING:
            return Activity.LOADING, runner.free_at
        if not is_wanted:
            return Activity.IDLE, self.used_at
        if runner.state is RunnerState.READY:  # it is about to be asked
            return Activity.BUSY, time.monotonic() + answer_s
        return Activity.BUSY, runner.free_at
