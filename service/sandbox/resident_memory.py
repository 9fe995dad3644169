"""Resident memory: what a process that was forked from the zygote takes of the machine beside it."""

import os

from tracehouse.byte_units import MIB

# Pages of the zygote that a process has copied by the time it has loaded a model: 6 MiB for a tiny one with torch 2.13.
COPIED_BYTES = 16 * MIB
_STATM_MAX_BYTES = 4096  # seven numbers
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResidentMemory:
    """To be made right after the process was forked, when it has only what it inherited."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._inherited_bytes = _anonymous_bytes(pid) or 0

    def read(self) -> int | None:
        """Return the bytes that the process takes without shared pages; None if the system does not tell."""
        taken = _anonymous_bytes(self._pid)
        return None if taken is None else max(taken - self._inherited_bytes + COPIED_BYTES, COPIED_BYTES)


def _anonymous_bytes(pid: int) -> int | None:
    """Return resident memory without mapped files, shared with the zygote or not; None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as statm:
            _, resident, shared, *_ = statm.read(_STATM_MAX_BYTES).split()
    except (OSError, ValueError):  # it is ending, or there is no /proc
        return None
    return (int(resident) - int(shared)) * _PAGE_BYTES
