"""Priority: what traces, parses or draws gives way to what answers requests."""

import os
import time
from pathlib import Path

# Chosen: beside a process or a session that answers, it gets a tenth of a processor, and what nobody else needs.
_NICENESS = 10
_SESSION = Path("/proc/self/autogroup")
_TRIES, _BETWEEN_TRIES_S = 50, 0.1


def give_way(niceness: int = _NICENESS) -> None:
    """Have this process come after those that answer, by so much (`os.nice`).

    Linux may share processors out between sessions before it does between processes: see `session_gives_way`.
    """
    os.nice(niceness)


def session_gives_way(niceness: int = _NICENESS) -> None:
    """Have all processes of this process's session together come after those of other sessions, by so much.

    Linux takes ten such changes a second from all unprivileged processes of a machine (kernel/sched/autogroup.c), so
    that this may wait for some seconds. Whoever forks often changes its own session, and its children stay in it.
    """
    for _ in range(_TRIES):
        try:
            _SESSION.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_BETWEEN_TRIES_S)
        except OSError:  # /proc may be missing or read-only, and the kernel made without such weights
            return
        else:
            return
