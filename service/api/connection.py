"""A connection: bounded before anything of it is believed, in bytes, in time, and in how many there are."""

import asyncio
import json
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.problems import (
    PROBLEM_JSON,
    HeadersTooLarge,
    MalformedHead,
    RequestTimeout,
    TooManyConnections,
    problem_of,
)
from service.domain.errors import ServiceError

# What precedes a body: what other servers take at most is 8 to 64 KiB.
HEAD_MAX_BYTES = 64 * 1024
HEADERS_MAX = 200


class BoundedProtocol(HttpToolsProtocol):
    """httptools bounds nothing: left alone, one header without end stops the event loop and fills the memory.

    Between the start of a connection, or the end of a reply, and the end of the next request's head lie at most
    `idle_s` seconds. A body's own deadline is with whoever reads it.
    """

    idle_s = 30.0
    connections_max = 1000

    _in_head = False
    _head_bytes = 0
    _refusal: ServiceError | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self._refuse(TooManyConnections("too many connections are open", limit=self.connections_max))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A head is fed in small pieces: a header is handed on only when it is whole, so its length is not known before.
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            within = self._in_head
            piece = rest[: HEAD_MAX_BYTES // 4] if self._in_head or self._deadline is not None else rest
            super().data_received(bytes(piece))
            rest = rest[len(piece) :]
            if within and self._in_head and not self.transport.is_closing():
                self._head_bytes += len(piece)
                if self._head_bytes > HEAD_MAX_BYTES:
                    self._refuse(_headers_too_large())

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_MAX:
            self._refusal = _headers_too_large()
            raise ValueError("too many headers")  # httptools ends with it, and send_400_response follows
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._forget_deadline()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._expect_head()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or MalformedHead(msg))

    def _expect_head(self) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(self.idle_s, self._give_up)

    def _give_up(self) -> None:
        if self._in_head:
            self._refuse(RequestTimeout(f"the request's head took more than {self.idle_s:g} s", limit_s=self.idle_s))
        else:
            self.transport.close()

    def _refuse(self, error: ServiceError) -> None:
        """Say why, and close. No app has seen anything of this request."""
        self._forget_deadline()
        problem = problem_of(error.failure())
        body = json.dumps(problem.model_dump(exclude_none=True)).encode()
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n"
            f"content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bounded(*, idle_s: float, connections_max: int) -> type[BoundedProtocol]:
    """A protocol for `uvicorn.Config(http=...)`, which makes one of it per connection."""
    return type("Bounded", (BoundedProtocol,), {"idle_s": idle_s, "connections_max": connections_max})


def _headers_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(
        f"a request's head may have {HEAD_MAX_BYTES} bytes and {HEADERS_MAX} headers",
        limit=HEAD_MAX_BYTES,
        headers_max=HEADERS_MAX,
    )
