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
    """The time of all steps of one name together, without the steps inside them."""

    name: str = Field(max_length=STEP_NAME_MAX_CHARACTERS)
    seconds: float = Field(allow_inf_nan=False)


class StepTimes:
    """Adds up the times of steps by their names. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sums: dict[str, float] = {}
        self._inside = [0.0]  # for each open step, what the steps inside it took

    @property
    def steps(self) -> list[StepTime]:
        """The steps in the order in which the first of each name ended."""
        return [StepTime(name=name, seconds=seconds) for name, seconds in self._sums.items()]

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = self._clock()
        self._inside.append(0.0)
        try:
            yield
        finally:
            whole = self._clock() - began
            own = whole - self._inside.pop()
            self._inside[-1] += whole
            self._sums[name] = self._sums.get(name, 0.0) + own


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
