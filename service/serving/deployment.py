"""A deployment: one tenant's requests for one artifact, and the runner that answers them one at a time."""

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field

from service.serving.runner import Runner, RunnerState
from tracehouse.artifact.manifest import Artifact
from tracehouse.errors import GoldenCaseFailed, RunnerLost

# One death may be the machine's fault, out of memory for example; two in a row are the artifact's.
_DEATHS_MAX = 2

# A tenant, and the digest of an artifact.
DeploymentKey = tuple[str, str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Hold:
    """The time until which requests are refused, and the error that they get."""

    until: float
    error: RunnerLost


@dataclass(eq=False)
class Deployment:
    """`turn` belongs to the request that is being answered; `pending` counts it and those that wait for it."""

    tenant: str
    artifact: Artifact
    digest: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    pending: int = 0
    runner: Runner | None = None
    starting: "asyncio.Task[Runner] | None" = None
    used_at: float = 0.0
    _deaths_in_a_row: int = 0
    _hold: _Hold | None = None

    @property
    def key(self) -> DeploymentKey:
        return self.tenant, self.digest

    @property
    def is_idle(self) -> bool:
        return self.pending == 0 and self.runner is not None and self.runner.state is RunnerState.READY

    @property
    def is_forgettable(self) -> bool:
        """Whether it holds nothing that a later request would miss."""
        lives = self.starting is not None or (self.runner is not None and self.runner.state is not RunnerState.GONE)
        return self.pending == 0 and not lives and self._hold is None

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
        if self._hold is None:
            return
        left_s = self._hold.until - time.monotonic()
        if left_s <= 0:
            self._hold = None
            return
        error = self._hold.error
        raise type(error)(error.detail, **error.facts, held_back=True, retry_after_s=math.ceil(left_s))
