"""Cancellation: tells one running attempt to stop, and why."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

# giving way: something else waits that has precedence. The attempt is queued again, and begins anew.
Reason = Literal["cancelled", "stopping", "giving way"]


class Cancellation:
    """May be set from any thread; the first reason stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: Reason | None = None
        self._callbacks: list[Callable[[], object]] = []

    @property
    def reason(self) -> Reason | None:
        return self._reason

    def set(self, reason: Reason) -> None:
        with self._lock:
            if self._reason is None:
                self._reason = reason
                for callback in self._callbacks:
                    callback()

    @contextmanager
    def calls(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` when this is set, or at once if it is set already; never after the block.

        It is called under a lock, so that a child's pid cannot be killed after the child was waited for: it must
        not wait for the block to end.
        """
        with self._lock:
            self._callbacks.append(callback)
            if self._reason is not None:
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)
