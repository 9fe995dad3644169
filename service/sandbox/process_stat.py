"""What the kernel says of a running process: /proc, see proc_pid_stat(5), and its clock."""

import time

# The place of num_threads among the fields after the program's name.
_THREADS = 17


def count_threads(pid: int) -> int:
    """Return how many threads a process has; 0 if that is unknown."""
    fields = _read_fields(pid)
    return int(fields[_THREADS]) if fields else 0


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process, and none has let it go on."""
    return _read_fields(pid)[:1] == [b"T"]


def processor_s(pid: int) -> float:
    """Return the processor time of all threads of a process, in seconds; 0 if that is unknown.

    /proc counts it in ticks of 10 ms, longer than most calls. So this reads the clock of the process.
    Python does not offer clock_getcpuclockid(3), which gives its number: Linux' MAKE_PROCESS_CPUCLOCK(pid,
    CPUCLOCK_SCHED), in posix-timers.h.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _read_fields(pid: int) -> list[bytes]:
    """Return the fields that follow the program's name, which may contain anything; none if the process is gone."""
    try:
        # As bytes and without a path object: every living child is looked at ten times a second.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
