"""A deployment: one tenant's requests for one artifact with so many threads, and the runner that answers them."""

import asyncio
import logging
import math
import time
from collections import deque
from dataclasses import dataclass, field

from service.domain.serving_options import ModelKey
from service.serving.pending_call import CallLeft, Group, PendingCall
from service.serving.room import Activity, Holding
from service.serving.runner import Runner, RunnerState
from service.serving.turn import Turn
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import GoldenCaseFailed, RunnerLost

# One death may be the machine's fault, out of memory for example; two in a row are the artifact's.
_DEATHS_MAX = 2

# A tenant, the digest of an artifact, and how many threads compute.
DeploymentKey = tuple[str, str, int]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Hold:
    """The time until which requests are refused, and the error that they get."""

    until: float
    error: RunnerLost


@dataclass(eq=False)
class Deployment:
    """`turn` belongs to who uses the runner; `waiting` are the calls that it is to be asked, in their order.

    `pending` counts the requests that are being answered, and those that wait for that. `model` is the name by which it
    was asked last.
    `admitted_bytes` is what its runner was admitted to the pool's memory with, or waits for. `is_raced`: it is known
    which form answers; until then, a race of them may begin at `race_at`. `is_saved`: the form as saved answers, for
    the one that won was taken back, or a model is served bitwise.
    """

    tenant: str
    artifact: Artifact
    digest: str
    threads: int
    turn: Turn = field(default_factory=Turn)
    waiting: deque[PendingCall] = field(default_factory=deque)
    pending: int = 0
    model: str = ""
    runner: Runner | None = None
    starting: "asyncio.Task[Runner] | None" = None
    admitted_bytes: int = 0
    waits_for_room: bool = False
    used_at: float = 0.0
    is_woken: bool = False  # the waiting calls are looked at once this turn of the event loop has ended
    measured_at: float = -math.inf
    is_raced: bool = False
    is_saved: bool = False
    race_at: float = -math.inf
    _deaths_in_a_row: int = 0
    _hold: _Hold | None = None

    @property
    def key(self) -> DeploymentKey:
        return self.tenant, self.digest, self.threads

    @property
    def is_forgettable(self) -> bool:
        """Whether it holds nothing that a later request would miss."""
        return self.pending == 0 and self.starting is None and not self.has_runner and self._hold is None

    @property
    def model_key(self) -> ModelKey:
        return ModelKey(self.tenant, self.model)

    def is_idle(self, idle_s: float) -> bool:
        """Whether a runner is ready that nobody has asked for so long."""
        is_ready = self.runner is not None and self.runner.state is RunnerState.READY
        return is_ready and self.pending == 0 and time.monotonic() - self.used_at >= idle_s

    @property
    def has_runner(self) -> bool:
        """Whether a process of it lives, or is being forked."""
        return self.runner is not None and self.runner.state is not RunnerState.GONE

    def holding(self, answer_s: float, *, is_pinned: bool = False) -> Holding | None:
        """Return what it has of the pool's memory; None if nothing.

        Whoever has the turn, but has not asked the runner yet, needs at most `answer_s` seconds from now.
        """
        if self.runner is not None and self.has_runner:
            byte_size, activity, free_at = self.runner.resident_bytes, *self._runner_activity(self.runner, answer_s)
        elif self.waits_for_room:
            byte_size, activity, free_at = self.admitted_bytes, Activity.WAITING, time.monotonic() + answer_s
        else:
            return None
        return Holding(*self.key, byte_size, self.admitted_bytes, free_at, activity, is_pinned)

    def _runner_activity(self, runner: Runner, answer_s: float) -> tuple[Activity, float]:
        if runner.state is RunnerState.STARTING:
            return Activity.LOADING, runner.free_at
        if self.pending == 0:
            return Activity.IDLE, self.used_at
        if runner.state is RunnerState.READY:  # it is about to be asked
            return Activity.BUSY, time.monotonic() + answer_s
        return Activity.BUSY, runner.free_at

    @property
    def is_held_back(self) -> bool:
        return self._hold is not None

    def take_group(self) -> Group | None:
        """Take the calls that are asked next: those that wait longest. None if nobody waits."""
        if not self.waiting:
            return None
        group = Group(self.waiting.popleft())
        while self.waiting and group.join(self.waiting[0]):
            self.waiting.popleft()
        return group

    def put_back(self, call: PendingCall) -> None:
        """Let a call that was taken be the next one, if somebody still waits for its answer."""
        if call.is_left:
            call.end(CallLeft())
        else:
            self.waiting.appendleft(call)

    def drop(self, call: PendingCall) -> None:
        """Drop a call, if it waits: nobody waits for its answer."""
        if call in self.waiting:
            self.waiting.remove(call)
            call.end(CallLeft())

    def count_answer(self) -> None:
        self._deaths_in_a_row = 0

    def count_death(self, error: RunnerLost, hold_s: float) -> None:
        """Hold the artifact back after two deaths in a row, or at once if another runner would fail the same way."""
        if self.runner is not None and self.runner.ended_with_zygote:
            return
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row >= _DEATHS_MAX or isinstance(error, GoldenCaseFailed):
            self._deaths_in_a_row = 0
            self._hold = _Hold(time.monotonic() + hold_s, error)
            _log.error("artifact held back", extra={"artifact": self.digest, "reason": error.detail, "seconds": hold_s})

    def refuse_if_held_back(self) -> None:
        """Raises the RunnerLost for which the artifact is held back."""
        if (error := self.why_held_back()) is not None:
            raise error

    def why_held_back(self) -> RunnerLost | None:
        """Return the error for which the artifact is held back; None if it is not."""
        if self._hold is None:
            return None
        left_s = self._hold.until - time.monotonic()
        if left_s <= 0:
            self._hold = None
            return None
        error = self._hold.error
        return type(error)(error.detail, **error.facts, held_back=True, retry_after_s=math.ceil(left_s))
