"""The budget: how long the check may still take, and what was left undone because of it."""

import time


class Budget:
    """Counts from when it is made; its shares write down together with it what they leave out."""

    def __init__(self, seconds: float, left_out: list[str] | None = None) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds
        self._left_out: list[str] = [] if left_out is None else left_out

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @property
    def is_spent(self) -> bool:
        return self.left_s == 0.0

    def share(self, fraction: float) -> "Budget":
        """A part of what is left, for one thing among several; what it leaves out, this one says."""
        return Budget(self.left_s * fraction, self._left_out)

    def leave_out(self, what: str) -> None:
        """Say what there was no time for."""
        self._left_out.append(what)

    def left_out(self) -> list[str]:
        """What was left out since this was asked last."""
        said = [*self._left_out]
        self._left_out.clear()
        return said
