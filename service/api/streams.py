"""Streams: the open event streams of each tenant, counted from before their first byte until their client is gone."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager

from fastapi.sse import EventSourceResponse
from starlette.types import Receive, Scope, Send

from service.api.problems import StreamQuotaExceeded, TooManyStreams


class OpenStreams:
    """How many streams are open. Only the event loop's thread counts."""

    def __init__(self) -> None:
        self._by_tenant: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._by_tenant.total()

    def of(self, tenant: str) -> int:
        return self._by_tenant[tenant]

    @contextmanager
    def counted(self, tenant: str, streams_max: int, tenant_streams_max: int | None) -> Iterator[None]:
        """Count a stream of the tenant until the block ends.

        Raises TooManyStreams, or StreamQuotaExceeded if the tenant has its share of streams; None sets no share.
        """
        if self._by_tenant.total() >= streams_max:
            raise TooManyStreams("too many event streams are open", limit=streams_max)
        if tenant_streams_max is not None and self.of(tenant) >= tenant_streams_max:
            raise StreamQuotaExceeded("the tenant has too many event streams open", limit=tenant_streams_max)
        self._by_tenant[tenant] += 1
        try:
            yield
        finally:
            self._by_tenant[tenant] -= 1
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]


class CountedStream(EventSourceResponse):
    """A reply of events that is counted while it is sent.

    The generator can't count itself: it begins after the reply's head is sent, when others have passed the limit, and
    one that waits for a client that goes is never resumed.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        count: Callable[[], AbstractContextManager[None]],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(events, headers=headers)
        self._events = events
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            with self._count():
                await super().__call__(scope, receive, send)
