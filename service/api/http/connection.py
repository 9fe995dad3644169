"""A connection: its bytes and its time are limited before anything is parsed, and it makes room for others.

All that leans on the insides of uvicorn is in this file, and tests/service/api/test_uvicorn.py holds uvicorn to it.
"""

import asyncio
import json
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from service.api.http.beginnings import Beginnings
from service.api.http.fast_exchange import WHOLE_WITHIN_S, FastExchange, FastPath
from service.api.http.head_rules import Header, find_fault
from service.api.http.places import Owner, Place, Places
from service.api.http.repeated_head import RepeatedHead
from service.api.http.security_headers import SECURITY_HEADERS
from service.api.http.sockets import Peer, find_peer, set_option
from service.api.http.upgrades import PlainParser, plain_head
from service.api.problems import (
    PROBLEM_JSON,
    ChunksTooShort,
    HeadersTooLarge,
    MalformedHead,
    RequestTimeout,
    TooManyConnections,
    headers_of,
    problem_of,
)
from tracehouse.errors import ServiceError

# Bytes of a head, or of the lines around a body's chunks, before they end. Other servers take 8 to 64 KiB.
HEAD_MAX_BYTES = 64 * 1024
HEADERS_MAX = 200
# Of one header, its name included. The longest that are sent are cookies, of which a browser has some for each host.
HEADER_MAX_BYTES = 16 * 1024
# Chunks that a body may have, however short they are; of more, each has so many bytes on average. One takes some
# microseconds, in which nobody else is answered, and a short one comes with six bytes.
SHORT_CHUNKS_MAX = 512
CHUNK_BYTES_MIN = 64
# Requests that wait behind the one being answered. Browsers send none, and other clients a few.
PIPELINE_MAX = 16

# What makes room has so long to hear why: longer than any network takes, and its place is taken already.
_LAST_WORDS_S = 1.0
# How often the service looks whether a client is still there that it does not read from; and how soon after
# `100 Continue`, which a client that has gone answers with a reset.
_LOOK_S, _LOOK_SOON_S = 0.5, 0.02
# Of a reply, the bytes that the kernel holds before it sends them. By itself it takes up to 4 MiB, and the service sees
# nothing of a slow client's reading before a third of them has gone.
_UNSENT_MAX_BYTES = 128 * 1024

# httptools reports a header only when it has ended, so its length is measured by what was fed.
_PIECE_BYTES = HEAD_MAX_BYTES // 4

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


FindTenant = Callable[[Iterable[Header]], str | None]


class BoundedProtocol(HttpToolsProtocol):
    """httptools has no limits: without these, one endless header stops the event loop and fills the memory.

    A request's head must be complete `head_s` seconds after the start of the connection, or after the first byte that
    follows a reply. That byte must come within uvicorn's `timeout_keep_alive`. A reply of which the client reads next
    to nothing for `idle_s` seconds is given up, also after the connection was closed: less than some hundred kilobytes,
    which buffers hide. Whoever reads a body limits its time; a body that is not wanted may go on for `idle_s`, because
    many clients look for the reply only after it.

    A request finds the connection's place in its state, under `place`.

    A small request that the `fast_path` takes is answered before there is a task or an app for it. Until it is whole,
    and wherever the fast path hands it over, it is a request like any other: the app finds it as it came. If the next
    one has the same head, and its body comes with that or after it in one piece, it is not even parsed, unless uvicorn
    must know of it before it is answered.

    The app begins with a request in its turn: see `service.api.http.beginnings`.
    """

    idle_s: float
    head_s: float
    places: Places
    beginnings: Beginnings
    find_tenant: FindTenant
    fast_path: FastPath | None = None
    count_problem: Callable[[ServiceError], object]

    _place: Place
    _parser: PlainParser
    _fast: FastExchange | None = None
    _came: bytes | None = None  # with what the request begins whose head is being parsed
    _repeated: RepeatedHead | None = None  # of the last request that was taken
    _head: bytes | None = None  # a repeated one that has come, and its body has not
    _waits_for_body: asyncio.TimerHandle | None = None
    _unparsed: bytes | None = None  # a request that is being answered
    _in_head = False
    _has_chunks = False
    _left_bytes = 0  # of the body that is arriving, whose length its head said
    _chunks = _chunked_bytes = 0  # of the body that is arriving
    _pending_bytes = 0  # fed since the last head or piece of a body ended
    _closed_for_input = False
    _is_half_closed = False  # no more comes, and there are requests to answer
    _has_sent_continue = False  # which shows whether a client that sends no more is still there
    _look: asyncio.TimerHandle | None = None
    _refusal: ServiceError | None = None
    _answered: RequestResponseCycle | None = None  # `cycle` is the last one of the pipeline
    _owner: Owner | None = None  # of the request that the app is to answer
    _deadline: asyncio.TimerHandle | None = None
    _read_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._parser = PlainParser(self, self._plain_head)
        self.parser = self._parser  # type: ignore[assignment]
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            set_option(transport, socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_MAX_BYTES)
        self._place = self.places.enter(self._client_address(), self._make_room)
        self._expect_request(self.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._parse_head()
        self._place.leave()
        self._cancel_deadline()
        self._cancel_read_deadline()
        self._cancel_look()
        self._unset_keepalive_if_required()  # uvicorn leaves it if the client has reset the connection
        if self._fast is not None:
            self._fast.leave()
        if self._answered is not None:  # uvicorn tells only the last request of a pipeline that its client has gone
            self._answered.disconnected = True
            self._answered.message_event.set()
            if self._owner is not None:
                self.beginnings.give_up(self._owner, self._answered)
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        if self._fast is not None:  # the request was taken before it was parsed
            self._fast.go_on(partial(_write_answer, cycle), partial(self._start_app, cycle, app))
            return
        came, self._came = self._came, None
        head = None if self.fast_path is None or self.flow.write_paused else self.fast_path.read(cycle.scope)
        if head is None:
            self._begin(cycle, app)
            return
        if came is not None:
            self._repeated = RepeatedHead.of(came, head)
        request = head.request(self._place, self._client_address())
        self._fast = FastExchange(request, partial(_write_answer, cycle), partial(self._start_app, cycle, app))
        self._ask_fast()

    def _start_app(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start the app on a request that the fast path hands over."""
        assert self._fast is not None
        cycle.scope["state"].update(self._fast.request.state)
        self._begin(cycle, app)

    def _begin(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start the app on a request in the turn of whose it is."""
        tenant = self.find_tenant(cycle.scope["headers"])
        self._owner = self._place.owner if tenant is None else Owner("tenant", tenant)
        self.beginnings.take(self._owner, cycle, partial(super()._start_asgi_task, cycle, app), self.loop)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            data = self._take_head() + data
        is_first = self._is_between_requests()
        if is_first and self._take_repeated(data):
            return
        self._parse_taken()
        self._came = data if is_first else None
        if self._deadline is None and self._awaits_request():
            self._expect_request(self.idle_s if self.cycle.more_body else self.head_s)
        rest = memoryview(data)
        while rest and self._takes_input():
            byte_size = max(_PIECE_BYTES, self._left_bytes)  # what is surely of a body needs no measuring
            piece, rest = rest[:byte_size], rest[byte_size:]
            self._pending_bytes += len(piece)
            super().data_received(data if len(piece) == len(data) else bytes(piece))
            if self._pending_bytes > HEAD_MAX_BYTES and self._takes_input():
                self._refuse(_headers_too_large())
        self._limit_wait()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer what has come whole, and close then: a client that sends no more may still read.

        Over TLS, neither side can close without the other.
        """
        self._parse_head()
        self._parse_taken()
        if not self._owes_answers() or self.transport.get_extra_info("sslcontext") is not None:
            return None
        self.cycle.keep_alive = False
        self._closed_for_input = self._is_half_closed = True
        self._look_for_client()
        return True

    def shutdown(self) -> None:
        self._parse_head()
        self._parse_taken()
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_read(self.idle_s)

    def resume_writing(self) -> None:
        if not self.transport.is_closing():
            self._cancel_read_deadline()
        super().resume_writing()

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()
        self.scope["state"]["place"] = self._place

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer, which no app gets
        if len(self.headers) >= HEADERS_MAX or len(name) + len(value) > HEADER_MAX_BYTES:
            self._refusal = _headers_too_large()
            raise ValueError("too many or too long headers")  # httptools stops, and uvicorn calls send_400_response
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._parser.asks_for_upgrade:
            return
        if (fault := find_fault(self.parser.get_http_version(), self.headers)) is not None:
            self._refusal = MalformedHead(fault)
            raise ValueError(fault)
        self._in_head, self._pending_bytes = False, 0
        self._has_chunks = any(name == b"transfer-encoding" for name, _ in self.headers)
        self._left_bytes = 0 if self._has_chunks else _length_in(self.headers)
        self._chunks = self._chunked_bytes = 0
        self._cancel_deadline()
        self._place.begin()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINE_MAX:
            raise ValueError("too many requests wait behind another")
        if len(self.pipeline) == 1:
            self._look_in(_LOOK_S)

    def on_body(self, body: bytes) -> None:
        self._pending_bytes = 0
        if self._has_chunks:
            self._count_chunk(len(body))
        else:
            self._left_bytes = max(0, self._left_bytes - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._parser.asks_for_upgrade:
            return
        self._left_bytes = 0
        super().on_message_complete()
        self._ask_fast()

    def on_response_complete(self) -> None:
        self._fast = None
        super().on_response_complete()
        self._limit_wait()  # for the next request, of which maybe no more comes
        if self._awaits_request():
            self._place.end()
        if self.transport.is_closing():
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        self._give_up()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or MalformedHead(msg))

    def _count_chunk(self, byte_size: int) -> None:
        self._chunks += 1
        self._chunked_bytes += byte_size
        if self._chunks <= SHORT_CHUNKS_MAX or self._chunked_bytes >= CHUNK_BYTES_MIN * self._chunks:
            return
        self._has_chunks = False
        if self.cycle.response_complete:  # the rest of a body that was not wanted
            self._closed_for_input = True
            self._close()
        else:
            self._refusal = ChunksTooShort(
                f"a body of more than {SHORT_CHUNKS_MAX} chunks has {CHUNK_BYTES_MIN} bytes in each, on average",
                chunks_max=SHORT_CHUNKS_MAX,
                chunk_bytes_min=CHUNK_BYTES_MIN,
            )
            raise ValueError("too many short chunks")  # httptools stops, and uvicorn calls send_400_response

    def _plain_head(self) -> bytes:
        return plain_head(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)

    def _ask_fast(self) -> None:
        """Ask the fast path for an answer if the request that it has taken is whole."""
        cycle = self._answered
        if self._fast is not None and cycle is not None and not cycle.more_body:
            self._fast.ask(bytes(cycle.body))  # a copy: handed over, the app reads the body from the cycle

    def _limit_wait(self) -> None:
        if self._fast is not None:
            self._fast.limit_wait(self.loop)

    def _take_repeated(self, data: bytes) -> bool:
        """Take a request with the head of the last one, to answer it, or to wait for its body; whether it was one."""
        if self._repeated is None:
            return False
        if (body := self._repeated.body_of(data)) is not None:
            self._ask_repeated(self._repeated, data, body)
        elif self._repeated.is_alone(data):
            self._keep_head(data)
        else:
            return False
        return True

    def _ask_repeated(self, repeated: RepeatedHead, data: bytes, body: bytes) -> None:
        self._unset_keepalive_if_required()
        self._cancel_deadline()
        self._place.begin()
        self._unparsed = data
        request = repeated.head.request(self._place, self._client_address())
        self._fast = FastExchange(request, self._write_unparsed, self._hand_over_unparsed)
        self._fast.ask(body)

    def _keep_head(self, data: bytes) -> None:
        """Keep a repeated head that has come alone, for most clients send the body at once."""
        self._unset_keepalive_if_required()
        self._place.begin()
        self._head = data
        self._waits_for_body = self.loop.call_later(WHOLE_WITHIN_S, self._hand_over_head)

    def _take_head(self) -> bytes:
        """Return the head that was kept, if one was, and keep it no longer."""
        head, self._head = self._head, None
        if self._waits_for_body is not None:
            self._waits_for_body.cancel()
            self._waits_for_body = None
        return head or b""

    def _parse_head(self) -> None:
        """Parse the head that was kept, because its body does not come, or uvicorn must know of the request."""
        if head := self._take_head():
            self._came = head
            super().data_received(head)
            self._limit_wait()

    def _hand_over_head(self) -> None:
        """Let the app wait for the body of the head that was kept: it knows how slow a body may be."""
        self._parse_head()
        if self._fast is not None:
            self._fast.hand_over()

    def _parse_taken(self) -> None:
        """Parse the request that is being answered without that, because uvicorn must know of it."""
        data, self._unparsed = self._unparsed, None
        if data is not None:
            super().data_received(data)

    def _hand_over_unparsed(self) -> None:
        self._parse_taken()
        assert self._fast is not None
        self._fast.hand_over()

    def _write_unparsed(self, status: int, head: bytes, body: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_answer(status, self.server_state.default_headers, head, body, keep_alive=True))
            self._unparsed = None
            self.on_response_complete()

    def _client_address(self) -> str:
        return self.client[0] if self.client else ""

    def _expect_request(self, within_s: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(within_s, self._give_up)

    def _give_up(self) -> None:
        if self._in_head:
            self._refuse(RequestTimeout("the request's head took too long", limit_s=self.head_s))
        else:
            self._close()

    def _make_room(self) -> None:
        """Close the connection at once, and say why unless a reply was the last that the client heard."""
        self._parse_head()
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        if self._in_head or cycle is None or not cycle.response_started:
            self._write_refusal(TooManyConnections("others needed the place of this connection"))
        self.transport.close()
        self._expect_read(_LAST_WORDS_S)

    def _refuse(self, error: ServiceError) -> None:
        """Reply with the error and close. If another request of the client is being answered, finish only that."""
        self._cancel_deadline()
        self._closed_for_input = True
        if self.pipeline:
            self._close()
        elif self._is_answering():
            self.cycle.keep_alive = False
        else:
            self._write_refusal(error)
            self._close()

    def _write_refusal(self, error: ServiceError) -> None:
        self.count_problem(error)
        self.transport.write(_reply(error))

    def _close(self) -> None:
        """Close once the client has read what was written, which must not take longer than any reply."""
        self.transport.close()
        self._expect_read(self.idle_s)

    def _look_in(self, within_s: float) -> None:
        self._cancel_look()
        self._look = self.loop.call_later(within_s, self._look_for_client)

    def _cancel_look(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_for_client(self) -> None:
        """Notice that the client has gone while nothing is read: requests wait behind another, or no more comes."""
        self._look = None
        if self.transport.is_closing() or not (self.pipeline or self._is_half_closed):
            return
        peer = find_peer(self.transport)
        if peer is Peer.GONE:
            self.transport.abort()
            return
        is_new = peer is Peer.HALF_CLOSED and self._send_continue()
        self._look_in(_LOOK_SOON_S if is_new else _LOOK_S)

    def _send_continue(self) -> bool:
        """Send `100 Continue` once to a client that sends no more; return whether it was sent now.

        A client that has gone answers it with a reset, and one that waits for its reply ignores it: RFC 9110, 15.2.
        """
        cycle = self._answered
        if self._has_sent_continue or cycle is None or cycle.response_started or cycle.scope["http_version"] != "1.1":
            return False
        self._has_sent_continue = True
        self.transport.write(_CONTINUE)
        return True

    def _expect_read(self, within_s: float) -> None:
        self._cancel_read_deadline()
        self._read_deadline = self.loop.call_later(within_s, self._cut)

    def _awaits_request(self) -> bool:
        """Whether every request was answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return self._unparsed is None and self._head is None and (cycle is None or cycle.response_complete)

    def _owes_answers(self) -> bool:
        """Whether requests have come whole and are not answered, and no body has come in part."""
        return not self._awaits_request() and not self.cycle.more_body

    def _is_between_requests(self) -> bool:
        """Whether nothing has come of a next request, which may come and be answered.

        Of a request that was refused early, the body may still come: whatever it looks like, it is no request.
        """
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        is_answering = self._fast is not None or not self._awaits_request()
        has_begun = self._in_head or self._pending_bytes or (cycle is not None and cycle.more_body)
        return self._takes_input() and not (is_answering or has_begun or self.flow.write_paused)

    def _cut(self) -> None:
        """Close at once. By itself the kernel would go on offering the client what it holds of the reply."""
        set_option(self.transport, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _takes_input(self) -> bool:
        return not self._closed_for_input and not self.transport.is_closing()

    def _is_answering(self) -> bool:
        """Whether a reply has begun, or must come because its request is whole."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return False
        return cycle.response_started or not cycle.more_body

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_read_deadline(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None


def _write_answer(cycle: RequestResponseCycle, status: int, head: bytes, body: bytes) -> None:
    """Write a reply as uvicorn would. `head` has its headers, but for those that uvicorn adds."""
    if cycle.disconnected or cycle.transport.is_closing():
        return
    cycle.response_started = True
    cycle.transport.write(_answer(status, cycle.default_headers, head, body, keep_alive=cycle.keep_alive))
    cycle.response_complete = True
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def _answer(status: int, default_headers: Iterable[Header], head: bytes, body: bytes, *, keep_alive: bool) -> bytes:
    lines = [STATUS_LINE[status]]
    for name, value in default_headers:
        lines += (name, b": ", value, b"\r\n")
    return b"".join((*lines, head, b"\r\n" if keep_alive else b"connection: close\r\n\r\n", body))


def _reply(error: ServiceError) -> bytes:
    problem = problem_of(error.failure())
    body = json.dumps(problem.model_dump(exclude_none=True)).encode()
    headers = {"Content-Type": PROBLEM_JSON, "Content-Length": len(body), **SECURITY_HEADERS, **headers_of(error)}
    headers["Connection"] = "close"
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _length_in(headers: Iterable[Header]) -> int:
    """Return how long the body is said to be. httptools has refused what is no length."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


def bounded_protocol(
    *,
    idle_s: float,
    head_s: float,
    places: Places,
    find_tenant: FindTenant = lambda _: None,
    fast_path: FastPath | None = None,
    count_problem: Callable[[ServiceError], object] = lambda _: None,
) -> type[BoundedProtocol]:
    """Return the class for `uvicorn.Config(http=...)`, which makes an instance for each connection.

    `find_tenant` says to whose turn a request with these headers belongs, if that is known at once. `count_problem` is
    called with each problem that a connection is answered without the app.
    """
    given = {"idle_s": idle_s, "head_s": head_s, "places": places, "fast_path": fast_path, "beginnings": Beginnings()}
    called = {"find_tenant": staticmethod(find_tenant), "count_problem": staticmethod(count_problem)}
    return type("Bounded", (BoundedProtocol,), {**given, **called})


def close_vanished(listening: socket.socket, idle_s: float) -> None:
    """Have the system close connections of this socket whose client acknowledges nothing for `idle_s` seconds.

    A client that loses its network closes nothing. Linux sends again for a quarter of an hour, and as long would an
    event stream count as open. Accepted sockets inherit the option.
    """
    if sys.platform == "linux":
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(idle_s * 1000))


def _headers_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(
        f"a request's head may have {HEAD_MAX_BYTES} bytes and {HEADERS_MAX} headers of {HEADER_MAX_BYTES} bytes each",
        limit=HEAD_MAX_BYTES,
        headers_max=HEADERS_MAX,
        header_max_bytes=HEADER_MAX_BYTES,
    )
