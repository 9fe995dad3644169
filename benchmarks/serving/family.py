"""A family of processes: a server's, and all that live below it. What they use is asked of the kernel."""

import os
from collections.abc import Iterator
from pathlib import Path

from tracehouse.byte_units import MIB

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Return the processor time of a process and of all that live below it."""
    return sum(map(_own_processor_s, family(pid)))


def memory_mib(pid: int) -> float:
    """Return the resident memory of them, in which a page that several have counts for each in part."""
    return sum(map(_own_memory_bytes, family(pid))) / MIB


def listener(port: int) -> int:
    """Return the process that listens on the port, by what it has open."""
    inode = next(
        line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    )  # fmt: skip
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) == f"socket:[{inode}]" for file in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue
    raise LookupError(f"nobody listens on {port}")


def family(pid: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(stat[1]), []).append(int(process.name))
    left = [pid]
    while left:
        yield (one := left.pop())
        left += parents.get(one, [])


def _own_processor_s(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / _TICKS


def _own_memory_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
