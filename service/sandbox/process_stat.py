"""What the kernel's /proc says of a running process; see proc_pid_stat(5)."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The places of utime, stime and num_threads among the fields after the program's name.
_UTIME, _STIME, _THREADS = 11, 12, 17


def count_threads(pid: int) -> int:
    """Return how many threads a process has; 0 if that is unknown."""
    fields = _read_fields(pid)
    return int(fields[_THREADS]) if fields else 0


def processor_s(pid: int) -> float:
    """Return the processor time of all threads of a process, in seconds; 0 if that is unknown."""
    fields = _read_fields(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S if fields else 0.0


def _read_fields(pid: int) -> list[str]:
    try:
        # The fields follow the program's name, which may contain anything.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
