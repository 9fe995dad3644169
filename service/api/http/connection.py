"""A connection: bounded before anything of it is believed, in bytes, in time, and in how many there are."""

import asyncio
import json
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.http.security_headers import SECURITY_HEADERS
from service.api.problems import (
    PROBLEM_JSON,
    HeadersTooLarge,
    MalformedHead,
    RequestTimeout,
    TooManyConnections,
    problem_of,
)
from tracehouse.errors import ServiceError

# What a client may send before a head, or the lines around a body's chunks, are whole. Other servers take 8 to 64 KiB.
HEAD_MAX_BYTES = 64 * 1024
HEADERS_MAX = 200
# Requests that wait behind the one that is being answered. Browsers send none, and other clients a few.
PIPELINE_MAX = 16

# A header is handed on only when it is whole, so its length is known by what was fed before.
_PIECE_BYTES = HEAD_MAX_BYTES // 4


class BoundedProtocol(HttpToolsProtocol):
    """httptools bounds nothing: left alone, one header without end stops the event loop and fills the memory.

    Between the start of a connection, or the end of a reply, and the end of the next request's head lie at most
    `idle_s` seconds, and a reply that is not read for so long is given up. A body's deadline is with whoever reads it.
    """

    idle_s = 30.0
    connections_max = 1000

    _in_head = False
    _unsaid_bytes = 0  # fed since the last head or piece of a body was whole
    _deaf = False
    _refusal: ServiceError | None = None
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            self._refuse(TooManyConnections("too many connections are open", limit=self.connections_max))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self._forget_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and self._hears():
            piece, rest = rest[:_PIECE_BYTES], rest[_PIECE_BYTES:]
            self._unsaid_bytes += len(piece)
            super().data_received(bytes(piece))
            if self._unsaid_bytes > HEAD_MAX_BYTES and self._hears():
                self._refuse(_headers_too_large())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_unread()
        self._unread = self.loop.call_later(self.idle_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_unread()
        super().resume_writing()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: no app is told of it
        if len(self.headers) >= HEADERS_MAX:
            self._refusal = _headers_too_large()
            raise ValueError("too many headers")  # httptools ends with it, and send_400_response follows
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._unsaid_bytes = False, 0
        self._forget_deadline()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINE_MAX:
            raise ValueError("too many requests wait behind another")

    def on_body(self, body: bytes) -> None:
        self._unsaid_bytes = 0
        super().on_body(body)

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
        """Say why, and close. Where another request of the client is being answered, only that is done."""
        self._forget_deadline()
        self._deaf = True
        if self.pipeline:
            self.transport.close()
        elif self._is_answering():
            self.cycle.keep_alive = False
        else:
            self.transport.write(_reply(error))
            self.transport.close()

    def _hears(self) -> bool:
        return not self._deaf and not self.transport.is_closing()

    def _is_answering(self) -> bool:
        """Whether a reply has begun, or must come because its request is whole."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return False
        return cycle.response_started or not cycle.more_body

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _reply(error: ServiceError) -> bytes:
    problem = problem_of(error.failure())
    body = json.dumps(problem.model_dump(exclude_none=True)).encode()
    headers = {"Content-Type": PROBLEM_JSON, "Content-Length": len(body), "Connection": "close", **SECURITY_HEADERS}
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def bounded(*, idle_s: float, connections_max: int) -> type[BoundedProtocol]:
    """A protocol for `uvicorn.Config(http=...)`, which makes one of it per connection."""
    return type("Bounded", (BoundedProtocol,), {"idle_s": idle_s, "connections_max": connections_max})


def _headers_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(
        f"a request's head may have {HEAD_MAX_BYTES} bytes and {HEADERS_MAX} headers",
        limit=HEAD_MAX_BYTES,
        headers_max=HEADERS_MAX,
    )
