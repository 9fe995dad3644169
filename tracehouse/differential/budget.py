"""The budget: how long the check may still take, and what was left out because of it."""

import time

# Processor time stands still while the model sleeps, or waits for what never comes; the clock does not.
PATIENCE = 4


class Budget:
    """Seconds of this thread's processor time, counted from when the budget is made.

    Processor time makes a busy machine find what an idle one finds. By the clock it may be `patience` times as long;
    what waits for other processes has a patience of 1. A budget and its shares list together what they leave out.
    """

    def __init__(self, seconds: float, left_out: list[str] | None = None, *, patience: float = PATIENCE) -> None:
        self.seconds = seconds
        self._patience = patience
        self._began = time.monotonic(), time.thread_time()
        self._left_out: list[str] = [] if left_out is None else left_out

    @property
    def left_s(self) -> float:
        began, began_processor = self._began
        used = max(time.thread_time() - began_processor, (time.monotonic() - began) / self._patience)
        return max(0.0, self.seconds - used)

    @property
    def is_spent(self) -> bool:
        return self.left_s == 0.0

    def share(self, fraction: float) -> "Budget":
        """Return a budget with a fraction of the time that is left. What it leaves out is listed here."""
        return Budget(self.left_s * fraction, self._left_out, patience=self._patience)

    def leave_out(self, what: str) -> None:
        """Note what there was no time for."""
        self._left_out.append(what)

    def left_out(self) -> list[str]:
        """Return what was left out, and forget it."""
        left_out = [*self._left_out]
        self._left_out.clear()
        return left_out
