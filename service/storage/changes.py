"""Changes: whoever waits in this process for a trace request's next event is called when it is on disk.

What other processes write is known from their notices, if an engine listens to them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

Callback = Callable[[], object]


class Changes:
    """Callbacks by the trace requests that they wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[str, list[Callback]] = {}

    @contextmanager
    def subscribe(self, request_id: str, callback: Callback) -> Iterator[None]:
        """Call `callback` after each event, on the thread that wrote it, until the block ends. It must not block."""
        with self._lock:
            self._callbacks.setdefault(request_id, []).append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks[request_id].remove(callback)
                if not self._callbacks[request_id]:
                    del self._callbacks[request_id]

    def notify(self, request_ids: Iterable[str]) -> None:
        """Call the callbacks of these requests."""
        with self._lock:
            callbacks = [callback for request_id in request_ids for callback in self._callbacks.get(request_id, ())]
        for callback in callbacks:
            callback()

    def notify_all(self) -> None:
        """Call all callbacks: whatever they wait for may have come."""
        with self._lock:
            request_ids = [*self._callbacks]
        self.notify(request_ids)
