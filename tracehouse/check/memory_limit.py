"""Memory limit: how much memory this process may still take, by its own limit and by that of its control group."""

import mmap
import resource
from pathlib import Path

from tracehouse.byte_units import MIB

_CGROUP = Path("/sys/fs/cgroup")
_PRECISION_BYTES = 4 * MIB


def free_bytes() -> int | None:
    """Return how many more bytes this process may take; None if it sees no limit."""
    known = [one for one in (_free_addresses(), _free_in_cgroup()) if one is not None]
    return min(known, default=None)


def _free_addresses() -> int | None:
    """Return how many more addresses the process may map; None if they have no limit.

    It is tried out, because a jail has no /proc that says how many are in use: such a mapping takes no memory.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    fits, fails = 0, limit
    while fails - fits > _PRECISION_BYTES:
        middle = (fits + fails) // 2
        if _can_map(middle):
            fits = middle
        else:
            fails = middle
    return fits


def _can_map(byte_size: int) -> bool:
    try:
        mmap.mmap(-1, byte_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, ValueError, MemoryError):
        return False
    return True


def _free_in_cgroup() -> int | None:
    """Return what this process's control group may still take; None if it has no limit, or shows none here."""
    try:
        group = _CGROUP / Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        stats = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # another system, a jail, or the word "max"
        return None
    # Cached files count as used, and give way to whoever needs memory.
    return max(0, limit - used + int(stats.get("inactive_file", 0)))
