"""The running clock: time by the clock, without stretches in which the process stood still.

A process stands still while it is stopped by a signal, the machine sleeps, or others have all processors. What it was
doing then is no slower for it. The clock sees such a stretch where it is read before and after it, and little processor
time went by: who wants to see every one reads it each second.
"""

import os
import time

TICK_S = 1.0  # it is to be read so often; a choice
_LEAST_S = 1.0  # shorter stretches count as time that the process waits; a choice


class RunningClock:
    """A clock that starts where `time.monotonic` is, and stands still while the process does.

    It keeps the functions that it asks: a check moves the clock that a model sees.
    """

    monotonic, _process_time = staticmethod(time.monotonic), staticmethod(time.process_time)

    def __init__(self) -> None:
        self.stood_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin to look at the processor time from now on, as a new process must."""
        self._read_at, self._used_s = self.monotonic(), self._process_time()

    def read(self) -> float:
        """Return the time in seconds. All threads' processor time counts as running."""
        now, used_s = self.monotonic(), self._process_time()
        stood_s = (now - self._read_at) - (used_s - self._used_s) - TICK_S
        if stood_s >= _LEAST_S:
            self.stood_s += stood_s
        self._read_at, self._used_s = now, used_s
        return now - self.stood_s


CLOCK = RunningClock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CLOCK.restart)
