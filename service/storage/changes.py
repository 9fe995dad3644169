"""Changes: who waits for a trace request's next event, in this process, is called when it is on disk."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

Callback = Callable[[], object]


class Changes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[str, list[Callback]] = {}

    @contextmanager
    def calls(self, request_id: str, callback: Callback) -> Iterator[None]:
        """Inside, `callback` is called after each event, from whichever thread wrote it. It must not wait."""
        with self._lock:
            self._callbacks.setdefault(request_id, []).append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks[request_id].remove(callback)
                if not self._callbacks[request_id]:
                    del self._callbacks[request_id]

    def tell(self, request_ids: Iterable[str]) -> None:
        with self._lock:
            callbacks = [callback for request_id in request_ids for callback in self._callbacks.get(request_id, ())]
        for callback in callbacks:
            callback()
