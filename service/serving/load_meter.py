"""The load meter: how many answers a deployment's runners give, and for how long they compute."""

import time
from typing import NamedTuple


class Load(NamedTuple):
    """Of all runners together, since the load was taken before: their answers, and the seconds for which they computed.

    What is being computed counts, too.
    """

    answers: int
    busy_s: float


class LoadMeter:
    def __init__(self) -> None:
        self._began: dict[int, float] = {}  # when the runners that compute were asked, by the numbers of their seats
        self._answers = 0
        self._busy_s = self._taken_busy_s = 0.0

    def begin(self, seat: int) -> None:
        """Note that the seat's runner computes from now on."""
        self._began[seat] = time.monotonic()

    def end(self, seat: int, answers: int) -> None:
        """Note that it has given so many answers, and computes no more."""
        self._answers += answers
        if (began := self._began.pop(seat, None)) is not None:
            self._busy_s += time.monotonic() - began

    def take(self) -> Load:
        """Return the load since this was asked last."""
        now = time.monotonic()
        busy_s = self._busy_s + sum(now - began for began in self._began.values())
        load = Load(self._answers, busy_s - self._taken_busy_s)
        self._answers, self._taken_busy_s = 0, busy_s
        return load
