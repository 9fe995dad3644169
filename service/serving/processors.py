"""The processors that this service may use, and for how long they had nothing to do."""

import os
from pathlib import Path

_STAT = Path("/proc/stat")
# The columns of a processor's line in which it has nothing to do: idle and iowait.
_IDLE = slice(4, 6)


def find_processors() -> set[int]:
    """Return the numbers of the processors that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {*range(os.cpu_count() or 1)}


def read_idle_s(stat: Path = _STAT) -> float | None:
    """Return for how many seconds in all these processors had nothing to do since the machine started, each for itself;
    None if that is unknown."""
    names = {f"cpu{number}" for number in find_processors()}
    try:
        fields = [line.split() for line in stat.read_text().splitlines() if line.startswith("cpu")]
        ticks = [sum(map(int, its[_IDLE])) for its in fields if its[0] in names]
        return sum(ticks) / os.sysconf("SC_CLK_TCK") if len(ticks) == len(names) else None
    except (OSError, ValueError):
        return None
