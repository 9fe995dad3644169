"""The sweeper: removes what is kept no longer every now and then, on a thread of its own."""

import logging
import threading

from service.domain.errors import ReleaseTooOld
from service.domain.retention import RetentionRules, Sweep
from service.storage.database import Store

log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps at its start, and then every `every_s` seconds; None: never."""

    def __init__(self, store: Store, rules: RetentionRules, every_s: float | None) -> None:
        self._store = store
        self._rules = rules
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        if self._every_s is not None:
            self._thread.start()

    def stop(self, grace_s: float = 10.0) -> None:
        """Let no other sweep begin, and wait up to `grace_s` seconds for one that runs: it may end at any point."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(grace_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                _log(self._store.retention.sweep(self._rules))
            except ReleaseTooOld:
                log.info("a newer release uses the database, and sweeps in place of this one")
            except Exception:  # the database may be away for a while
                log.exception("a sweep broke off")
            self._stopping.wait(self._every_s)


def _log(swept: Sweep) -> None:
    counts = swept.model_dump(exclude={"requests", "are_files_in_use"})
    said = "swept, but not all files: others were storing some, so the next sweep goes on"
    log.info(
        said if swept.are_files_in_use else "swept",
        extra={"trace_requests": [one.id for one in swept.requests], **counts},
    )
