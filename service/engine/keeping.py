"""Keeping: a tenant's submissions with files are stored one at a time, and wait for those of no other tenant.

Whoever stores files may wait long for the place where they are kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakValueDictionary


class Keeping:
    """Any number of threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()  # by tenants

    @contextmanager
    def turn(self, tenant: str, *, has_files: bool) -> Iterator[None]:
        """Wait until no other submission of the tenant stores files, if this one has any."""
        if not has_files:
            yield
            return
        with self._lock:
            turn = self._turns.setdefault(tenant, Lock())
        with turn:
            yield
