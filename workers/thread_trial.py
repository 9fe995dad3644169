"""The thread trial: how long calls of an artifact take with 1, 2, 4 threads and so on, as long as more are worth it.

One process, in the jail in which it would serve, is asked by turns with a number of threads and with twice as many,
the artifact as saved. Where the answers differ by more than the tolerance of the artifact's check, it ends.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod

from service.domain.thread_count import ThreadStep, numbers_to_try
from service.protocol.bounds import ANSWER_MAX_BYTES
from service.protocol.calls import Call
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.blobs import Blobs
from tracehouse.artifact.manifest import Artifact
from tracehouse.differential.comparison import compare
from tracehouse.errors import TraceError, TracerLost
from workers.limits import TraceLimits
from workers.processes.artifact import ArtifactProcess
from workers.processes.exits import AttemptStopped
from workers.race_calls import RaceCall, RaceCalls
from workers.trial_process import TrialProcesses, lower_quartile, shorten, time_of, why_ended

# Calls of each shape that are timed with each of two numbers; at most so many, and so many seconds, but at least a few.
# Chosen: a tiny model takes some milliseconds, and a large one less than a minute.
TIMED_MAX, _TIMED_MIN, _TIMED_S = 31, 3, 2.0

# Makes a call with so many threads, and returns how long it took in seconds.
TakeTime = Callable[[int, Callable[[], object]], float]


def take_time(threads: int, call: Callable[[], object]) -> float:  # noqa: ARG001 - tests look at it
    """Make the call, and return how long it took."""
    return time_of(call)


class _StepOut(Exception):
    """The number of threads may not compute, or cannot be timed; the text says why."""


@dataclass
class _Trial:
    """The process, the calls, and what was made of the artifact's tolerance."""

    process: ArtifactProcess
    calls: RaceCalls
    tolerance: float
    measure: TakeTime

    def step(self, fewer: int, threads: int) -> ThreadStep:
        """Time a number of threads beside a smaller one. Raises _StepOut."""
        times = [taken for one in self.calls.timed() if (taken := self._time(one, fewer, threads)) is not None]
        if not times:
            raise _StepOut("the artifact raises on all calls that would be timed")
        ratios = [fewer_s / seconds for fewer_s, seconds in times]
        fewer_s, seconds = times[0]
        return ThreadStep(
            threads=threads,
            fewer=fewer,
            seconds=seconds,
            fewer_seconds=fewer_s,
            speedup=prod(ratios) ** (1 / len(ratios)),
            slowest=min(ratios),
        )

    def _time(self, one: RaceCall, fewer: int, threads: int) -> tuple[float, float] | None:
        """Return how long the call takes with each number; None if the artifact raises on it. Raises _StepOut."""
        expected = self.calls.output_datatypes(one)
        call = Call(self.calls.call.method, one.inputs, ANSWER_MAX_BYTES)
        taken: dict[int, list[float]] = {fewer: [], threads: []}
        until = time.monotonic() + _TIMED_S
        while (done := len(taken[threads])) < _TIMED_MIN or (done < TIMED_MAX and time.monotonic() < until):
            answers = {}
            for number in (fewer, threads) if done % 2 else (threads, fewer):
                # This call makes the threads, which are there for the one that is timed.
                self.process.ask_with(self.calls.call, one.inputs, seed=0, threads=number)
                answers[number] = self.process.answer()
                if not isinstance(answers[number], str):
                    taken[number].append(self.measure(number, partial(self.process.serve, call, expected)))
            few, more = answers[fewer], answers[threads]
            if isinstance(few, str) and isinstance(more, str):
                return None
            if isinstance(few, str) or isinstance(more, str):
                raise _StepOut(f"{one.name}: it raises with one of the two numbers of threads alone")
            names = f"{fewer} thread{'s' if fewer > 1 else ''}", f"{threads} threads"
            if (found := compare(few, more, self.tolerance, names).difference) is not None:
                raise _StepOut(f"{one.name}: {found.leaf!r} differs: {found.what}")
        return lower_quartile(taken[fewer]), lower_quartile(taken[threads])


class ThreadRunner:
    """Runs the trial of an artifact. `limits` are those of its process; their wall clock is that of the whole trial.

    `measure` takes the times: a test has its own.
    """

    def __init__(self, zygote: Zygote, blobs: Blobs, limits: TraceLimits, measure: TakeTime = take_time) -> None:
        self._zygote = zygote
        self._blobs = blobs
        self._limits = limits
        self._measure = measure

    def run(self, artifact: Artifact, threads_max: int, cancellation: Cancellation) -> list[ThreadStep] | None:
        """Return what became of each number of threads that was tried, from few to many.

        It is None if the trial was cancelled, or the zygote was lost.
        Raises a ServiceError if a file is missing, or nothing can be forked.
        """
        numbers = numbers_to_try(threads_max)
        if not numbers:
            return []
        changed = {"threads": threads_max, "cpu_s": int(self._limits.wall_s) * threads_max}
        processes = TrialProcesses(self._zygote, self._blobs, self._limits.model_copy(update=changed))
        steps: list[ThreadStep] = []
        try:
            with ExitStack() as stack:
                for step in self._steps(stack, processes, artifact, numbers, cancellation):
                    steps.append(step)
                    if not step.is_worth_it:
                        break
        except _StepOut as out:
            steps.append(self._out(steps, numbers, str(out)))
        except (AttemptStopped, TracerLost):  # it says nothing of the artifact
            return None
        except TraceError as error:
            steps.append(self._out(steps, numbers, why_ended(error, "timed", self._limits.wall_s)))
        return steps if cancellation.reason is None else None

    def _steps(
        self,
        stack: ExitStack,
        processes: TrialProcesses,
        artifact: Artifact,
        numbers: list[int],
        cancellation: Cancellation,
    ) -> Iterator[ThreadStep]:
        """Yield each number of threads beside the one before. Raises _StepOut and what the process raises."""
        try:
            calls = processes.calls(artifact, "forward")
        except ValueError as error:
            raise _StepOut(str(error)) from error
        until = time.monotonic() + self._limits.wall_s
        process = processes.load(stack, artifact, cancellation, until, threads=1, refuses_steps=True)
        trial = _Trial(process, calls, artifact.check.tolerance, self._measure)
        for fewer, threads in zip([1, *numbers], numbers, strict=False):
            yield trial.step(fewer, threads)

    def _out(self, steps: list[ThreadStep], numbers: list[int], why: str) -> ThreadStep:
        place = len(steps)
        return ThreadStep(threads=numbers[place], fewer=[1, *numbers][place], out=shorten(why))
