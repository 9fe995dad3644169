"""The lock of a state directory, which whoever uses the directory alone holds."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_state(state: Path) -> Iterator[None]:
    """Hold the lock within the block. Raises BlockingIOError if another process holds it, and other OSErrors."""
    with (state / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
