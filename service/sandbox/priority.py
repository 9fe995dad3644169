"""Priority: what traces, parses or draws gives way to what answers requests."""

import contextlib
import os
from pathlib import Path

# Chosen: beside a process that answers, it gets a tenth of a processor, and what nobody else needs.
_NICENESS = 10


def give_way(niceness: int = _NICENESS) -> None:
    """Have this process come after those that answer, by so much (`os.nice`). It must be the leader of a session that
    it has for itself: Linux may share processors out between sessions before it does between processes."""
    os.nice(niceness)
    with contextlib.suppress(OSError):  # /proc may be missing or read-only, and the kernel made without such weights
        Path("/proc/self/autogroup").write_text(str(niceness))
