"""Step times: how long the steps of a trace request take, if somebody records them in this thread."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pydantic import Field

from tracehouse.frozen import Frozen

STEPS_MAX = 100
STEP_NAME_MAX_CHARACTERS = 60


class StepTime(Frozen):
    """The time of all steps of one name together, by the clock and of the processor, without the steps inside them."""

    name: str = Field(max_length=STEP_NAME_MAX_CHARACTERS)
    seconds: float = Field(allow_inf_nan=False)
    processor_s: float = Field(allow_inf_nan=False)


class StepTimes:
    """Adds up the times of steps by their names. `processor_clock` says how much processor time was used so far."""

    def __init__(self, processor_clock: Callable[[], float]) -> None:
        self._processor_clock = processor_clock
        self._sums: dict[str, tuple[float, float]] = {}
        self._inside = [(0.0, 0.0)]  # for each open step, what the steps inside it took

    @property
    def steps(self) -> list[StepTime]:
        """The steps in the order in which the first of each name ended."""
        return [
            StepTime(name=name, seconds=seconds, processor_s=processor_s)
            for name, (seconds, processor_s) in self._sums.items()
        ]

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began, processor_began = time.monotonic(), self._processor_clock()
        self._inside.append((0.0, 0.0))
        try:
            yield
        finally:
            whole = time.monotonic() - began, self._processor_clock() - processor_began
            inside = self._inside.pop()
            self._inside[-1] = _add(self._inside[-1], whole)
            own = whole[0] - inside[0], whole[1] - inside[1]
            self._sums[name] = _add(self._sums.get(name, (0.0, 0.0)), own)


_recorded: ContextVar[StepTimes | None] = ContextVar("recorded", default=None)


@contextmanager
def record(times: StepTimes) -> Iterator[None]:
    """Record the steps of this thread inside."""
    token = _recorded.set(times)
    try:
        yield
    finally:
        _recorded.reset(token)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Measure what runs inside as a step of this name, if somebody records."""
    times = _recorded.get()
    if times is None:
        yield
        return
    with times.measure(name):
        yield


def _add(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]
