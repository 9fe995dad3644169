"""A request over gRPC: what each one passes, whatever it asks for, as a request over HTTP does in `service.api.http`.

It is a call of its own, or one message of a stream.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import ParamSpec, TypeVar

from grpc import aio
from opentelemetry.trace import SpanKind

from service import telemetry
from service.api.context import AppContext
from service.api.grpc.exchange import Exchange
from service.api.grpc.peer import Peer
from service.api.held_bytes import Holding
from service.api.http.access_log import log_exchange
from service.api.http.body import COPIED_HERE_BYTES, SMALL_BYTES
from service.log import http_request_id
from tracehouse.errors import AnswerTooLarge, ServiceError

P = ParamSpec("P")
R = TypeVar("R")

# Of the name of a span, which any client may have sent.
_NAME_MAX = 80


class Request(ABC):
    """One request, and what it holds until `close`."""

    def __init__(self, context: AppContext, peer: Peer, request_id: str, message_max_bytes: int) -> None:
        self.context = context
        self._peer = peer
        self._request_id = request_id
        self._message_max_bytes = message_max_bytes
        self._arriving, self._unread = Holding(context.arriving), Holding(context.unread)

    @property
    def tenant(self) -> str:
        return self._peer.tenant

    @abstractmethod
    async def read(self) -> bytes:
        """Return the message. Raises why there is none."""

    async def parse_aside(self, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do as `service.api.http.body.parse_aside`."""
        if byte_size <= SMALL_BYTES:
            return work(*args, **kwargs)
        return await self.context.parsings.run(self.tenant, work, *args, **kwargs)

    async def copy_aside(self, byte_size: int, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do as `service.api.http.body.copy_aside`."""
        if byte_size <= COPIED_HERE_BYTES:
            return work(*args, **kwargs)
        return await self.context.turns.go_on(self.tenant, work, *args, **kwargs)

    async def run(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do work on a thread in turn. Raises TooMuchWorkWaits."""
        return await self.context.turns.run(self.tenant, work, *args, **kwargs)

    def hold_reply(self, byte_size: int) -> None:
        """Count so many bytes until the reply has been sent. Raises AnswerTooLarge and TooMuchUnread.

        gRPC copies a message at once, in the event loop, where over HTTP it would go in pieces.
        """
        if byte_size > self._message_max_bytes:
            raise AnswerTooLarge(
                f"the answer has {byte_size} bytes, and a message over gRPC may have {self._message_max_bytes}",
                limit=self._message_max_bytes, byte_size=byte_size,
                remedy="Ask for fewer outputs at a time, or over HTTP; GRPC_MESSAGE_MAX_BYTES is the limit.",
            )  # fmt: skip
        self._unread.reach(self.tenant, byte_size)

    def timeout_s(self, asked_s: float | None) -> float | None:
        """Return within which time an answer is wanted: as it is asked for, or by the call's deadline."""
        return min((each for each in (asked_s, self._peer.rpc.time_remaining()) if each is not None), default=None)

    def close(self) -> None:
        self._arriving.close()
        self._unread.close()

    async def _answer(self, respond: Callable[["Request"], Awaitable[bytes]], *, has_span: bool) -> bytes:
        """Return the reply, or what `_fail` returns."""
        if not has_span or not telemetry.is_on():
            return await self._exchange(respond)
        aborted: aio.AbortError
        with telemetry.span(
            self._peer.path[1:_NAME_MAX],
            _describe(self._peer.path),
            parent=self._peer.trace_context,
            kind=SpanKind.SERVER,
        ):
            try:
                return await self._exchange(respond)
            except aio.AbortError as error:  # how gRPC ends a call, and no fault of ours
                aborted = error
        raise aborted

    async def _exchange(self, respond: Callable[["Request"], Awaitable[bytes]]) -> bytes:
        http_request_id.set(self._request_id)
        begun, exchange = perf_counter(), Exchange()
        try:
            return await exchange.run(self._respond(respond), self._fail)
        finally:
            log_exchange("gRPC", self._peer.path, exchange.status, perf_counter() - begun, self._peer.logged)

    async def _respond(self, respond: Callable[["Request"], Awaitable[bytes]]) -> bytes:
        await self._admit()
        return await respond(self)

    @abstractmethod
    async def _admit(self) -> None:
        """Raise why the request is not let in, if it is not."""

    @abstractmethod
    async def _fail(self, error: ServiceError) -> bytes:
        """Return the reply that says what is wrong, or end the call with it."""


def _describe(path: str) -> telemetry.Attributes:
    """Return the names that OpenTelemetry gives to calls of gRPC."""
    service, _, method = path[1:].partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
