"""The budget: how long the check may still take, and what was left undone because of it."""

import time

# Processor time does not pass while the model sleeps, or waits for what never comes.
PATIENCE = 4


class Budget:
    """Seconds of this thread's processor time from when it is made, so that a busy machine finds what an idle one does;
    no more than `patience` times as many by the clock. For what waits for other processes, one time.

    Its shares write down together with it what they leave out.
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
        """A part of what is left, for one thing among several; what it leaves out, this one says."""
        return Budget(self.left_s * fraction, self._left_out, patience=self._patience)

    def leave_out(self, what: str) -> None:
        """Say what there was no time for."""
        self._left_out.append(what)

    def left_out(self) -> list[str]:
        """What was left out since this was asked last."""
        said = [*self._left_out]
        self._left_out.clear()
        return said
