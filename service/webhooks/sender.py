"""The sender: delivers what is due, on threads of its own, one message of a tenant at a time, tenants in turn."""

import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from time import monotonic

from opentelemetry.trace import SpanKind

from service import telemetry
from service.domain.errors import WebhookNotFound
from service.domain.webhook import Message
from service.storage.database import Store
from service.webhooks.delivery import deliver
from service.webhooks.target import Network

# As Standard Webhooks recommends: about three days in all.
RETRIES_S = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
# A webhook that did not reply is left alone for so long: its tenant's turns go to the tenant's other webhooks.
_REST_S = 60
# Longer than a try takes. A message of a process that was killed waits for so long.
_TAKEN_S = 60
_THREADS = 4
_GONE = 410

log = logging.getLogger(__name__)


class Sender:
    """A message that is not answered with 2xx is tried again, the last time after three days. What waits is in the
    database, so that it outlives the process; after a crash, a message may come twice, with the same `webhook-id`.

    A webhook that answers 410 is deleted, as Standard Webhooks says.
    """

    def __init__(
        self,
        store: Store,
        networks: Sequence[Network],
        *,
        every_s: float = 1.0,
        retries_s: Sequence[float] = RETRIES_S,
    ) -> None:
        self._store = store
        self._networks = networks
        self._every_s = every_s
        self._retries_s = retries_s
        self._random = Random()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._turns = count(1)
        self._last_turn: dict[str, int] = {}
        self._resting: dict[str, float] = {}  # until when, by webhooks
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, name=f"webhooks {n}", daemon=True) for n in range(_THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, grace_s: float = 1.0) -> None:
        """Begin no other delivery. One that runs is hardly waited for: the next start makes it once more."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(grace_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._take()
                if message is not None:
                    self._deliver(message)
                    continue
            except Exception:  # the database may be away for a while
                log.exception("webhooks are not delivered")
            self._stopping.wait(self._every_s)

    def _take(self) -> Message | None:
        """Return a message of the tenant whose turn was longest ago, unless one of its messages is under way."""
        with self._lock:
            self._resting = {webhook: until for webhook, until in self._resting.items() if until > monotonic()}
            due = self._store.webhooks.due(self._busy, self._resting)
            for message in sorted(due, key=lambda one: self._last_turn.get(one.tenant, 0)):
                if self._store.webhooks.take(message, datetime.now(UTC) + timedelta(seconds=_TAKEN_S)):
                    self._busy.add(message.tenant)
                    self._last_turn[message.tenant] = next(self._turns)
                    return message
            return None

    def _deliver(self, message: Message) -> None:
        try:
            with telemetry.span(
                "webhook", _describe(message), parent=message.trace_context or {}, kind=SpanKind.CLIENT
            ) as span:
                result = deliver(message, self._networks)
                span.set_attribute("http.response.status_code" if isinstance(result, int) else "error.type", result)
            if isinstance(result, str):
                self._rest(message)
            if not self._stopping.is_set() or isinstance(result, int):
                self._end(message, result)
        finally:
            with self._lock:
                self._busy.discard(message.tenant)

    def _end(self, message: Message, result: int | str) -> None:
        log.info("webhook tried", extra={"webhook": message.webhook, "webhook_message": message.id, "result": result})
        if result == _GONE:
            try:
                self._store.webhooks.delete(message.tenant, message.webhook)
            except WebhookNotFound:
                return
        elif isinstance(result, int) and 200 <= result < 300:
            self._store.webhooks.end(message, str(result), try_at=None)
        else:
            self._store.webhooks.end(message, str(result), try_at=self._next_try(message))

    def _rest(self, message: Message) -> None:
        """Let the webhook rest, but not beyond the message's next try."""
        with self._lock:
            self._resting[message.webhook] = monotonic() + min([_REST_S, *self._retries_s[message.tries :][:1]])

    def _next_try(self, message: Message) -> datetime | None:
        if message.tries >= len(self._retries_s):
            return None
        after_s = self._retries_s[message.tries] * self._random.uniform(1, 1.2)  # not all at the same moment
        return datetime.now(UTC) + timedelta(seconds=after_s)


def _describe(message: Message) -> telemetry.Attributes:
    """Return what the span of a try says of it: nothing of its address, which may have a secret in it."""
    return {
        "tracehouse.tenant": message.tenant,
        "tracehouse.webhook": message.webhook,
        "tracehouse.webhook_message": message.id,
        "tracehouse.tries": message.tries,
    }
