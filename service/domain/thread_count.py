"""The thread count: with how many threads an artifact is answered on this kind of machine, as calls showed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import Field

from service.domain.machine_finding import MachineFinding
from tracehouse.frozen import Frozen

# Twice as many threads compute if a call is so many times as fast over all shapes, and not slower than this with any.
# Chosen: two runs of the same differ by less than a tenth, and a caller who is alone waits at most a quarter longer
# than with twice the threads. For less than that, the processors are of more use to other calls. So it is for replicas.
SPEEDUP_MIN, _SLOWEST_MIN = 1.25, 0.95


class ThreadStep(Frozen):
    """What calls showed of a number of threads beside half of it. Times are those of one call, in seconds."""

    threads: int
    fewer: int = Field(description="The threads that it was compared with.")
    out: str | None = Field(None, description="Why it may not compute; null if it gave the same answers.")
    seconds: float | None = Field(None, description="The lower quartile at the example's sizes; null if out.")
    fewer_seconds: float | None = Field(None, description="The same with fewer threads, between the same calls.")
    speedup: float | None = Field(None, description="How many times as fast it was, over all shapes that were timed.")
    slowest: float | None = Field(None, description="`speedup` for the one shape with which it gained least.")

    @property
    def is_worth_it(self) -> bool:
        if self.out is not None or self.speedup is None or self.slowest is None:
            return False
        return self.speedup >= SPEEDUP_MIN and self.slowest >= _SLOWEST_MIN


class ThreadCount(MachineFinding):
    """The result for an artifact on one kind of machine, with one version of torch."""

    measured_at: datetime
    threads: int | None = Field(None, description="How many threads compute; null: 2, as before any measurement.")
    why: str = Field(description="Why it is so many.")
    steps: list[ThreadStep] = Field([], description="Each number of threads that was timed beside half of it.")

    @classmethod
    def of(cls, digest: str, machine: str, torch: str, measured_at: datetime, steps: Sequence[ThreadStep]) -> Self:
        """Return the result of these steps, of which each but the last one was worth it."""
        threads, why = _choose(steps)
        return cls(
            digest=digest, machine=machine, torch=torch,
            measured_at=measured_at, threads=threads, why=why, steps=[*steps],
        )  # fmt: skip

    def without(self, why: str) -> Self:
        """Return the result after which as many threads compute as before the measurement."""
        return self.model_copy(update={"threads": None, "why": f"{self.threads} were taken back, because {why}"})


def _choose(steps: Sequence[ThreadStep]) -> tuple[int | None, str]:
    if not steps:
        return 1, "the service may use one processor"
    last = steps[-1]
    if last.is_worth_it:
        return last.threads, f"a call was {last.speedup:.2f} times as fast as with {last.fewer}, and there are no more"
    if last.out is None:
        what = f"with {last.threads}, a call was only {last.speedup:.2f} times as fast"
        if last.slowest is not None and last.slowest < _SLOWEST_MIN:
            what += f", and {last.slowest:.2f} times with one shape"
        return last.fewer, what
    if last.fewer == 1:  # nothing is known of more than one: it may need them
        return None, f"the usual number stays: {last.out}"
    return last.fewer, f"with {last.threads}: {last.out}"


def numbers_to_try(threads_max: int) -> list[int]:
    """Return 2, 4, 8 and so on, and at last all that there may be."""
    doubled = [1 << power for power in range(1, threads_max.bit_length()) if 1 << power < threads_max]
    return [*doubled, threads_max] if threads_max > 1 else []
