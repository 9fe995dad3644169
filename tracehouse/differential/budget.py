"""The budget: how long the check may still take, and what was left out because of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tracehouse.differential.running_clock import CLOCK

# How many times as long as its processor time the check may take by the clock. Processor time stands still while the
# model sleeps or waits, perhaps for ever. Chosen: a check that shares its processor with three others still finishes.
PATIENCE = 4
_PARDONED_LEAST_S = 300.0  # so many seconds may the process stand still, however small the budget is; a choice


@dataclass(frozen=True)
class _LeftOut:
    """Something that was left out. `is_cut`: because of a limit, and not because it could not be done."""

    what: str
    is_cut: bool


class Budget:
    """A number of seconds of processor time, counted from when the budget is made.

    With processor time, a busy machine finds what an idle one finds. By the clock, the work may take `patience` times
    as long. Stretches in which the process stands still do not count, up to `patience` times that. `processor_s`
    returns the processor time used so far, in seconds: this thread's, or that of the processes that it waits for too.
    What several processors do at once counts as long as it takes by the clock. A budget and its shares have one list of
    what was left out.
    """

    def __init__(
        self,
        seconds: float,
        left_out: list[_LeftOut] | None = None,
        *,
        patience: float = PATIENCE,
        processor_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.seconds = seconds
        self._patience = patience
        self._processor_s = processor_s
        self._began, self._began_processor_s = CLOCK.read(), processor_s()
        self._stood_before_s = CLOCK.stood_s
        self._left_out: list[_LeftOut] = [] if left_out is None else left_out

    @property
    def processor_s(self) -> float:
        """The processor time that was used, in seconds, at most what passed by the clock."""
        return min(self._processor_s() - self._began_processor_s, self._by_the_clock_s)

    @property
    def left_s(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self.seconds - max(self.processor_s, self._by_the_clock_s / self._patience))

    @property
    def left_by_the_clock_s(self) -> float:
        """How many seconds a single call may take that uses no processor time, or has the machine for itself."""
        return self.left_s * self._patience

    @property
    def is_spent(self) -> bool:
        return self.left_s == 0.0

    def share(self, fraction: float) -> "Budget":
        """Return a budget with a fraction (0 to 1) of the time that is left. What it leaves out is listed here too."""
        return Budget(self.left_s * fraction, self._left_out, patience=self._patience, processor_s=self._processor_s)

    def leave_out(self, what: str, *, is_cut: bool = True) -> None:
        """Note what there was no time for or, if it is not cut, what could not be done in any time."""
        self._left_out.append(_LeftOut(what, is_cut))

    @property
    def _by_the_clock_s(self) -> float:
        running_s, stood_s = CLOCK.read() - self._began, CLOCK.stood_s - self._stood_before_s
        # A model whose code in C waits looks the same, and is to end some time.
        return running_s + max(0.0, stood_s - self._pardoned_max_s)

    @property
    def _pardoned_max_s(self) -> float:
        return max(self.seconds * self._patience**2, _PARDONED_LEAST_S)

    @property
    def is_cut(self) -> bool:
        """Whether something was left out because a limit cut it."""
        return any(one.is_cut for one in self._left_out)

    def left_out(self) -> list[str]:
        """Return what was left out, first what was cut, and forget it."""
        left_out = [one.what for one in sorted(self._left_out, key=lambda one: not one.is_cut)]
        self._left_out.clear()
        return left_out
