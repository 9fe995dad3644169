"""Whatever happens to a connection, and in whatever order: with a fast path the same bytes come back as without one.

Time moves only when an example says so, and an answer is made only then, so that no outcome hangs on the machine.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from service.api.http.connection import bounded_protocol
from service.api.http.fast_exchange import WHOLE_WITHIN_S, HandOver, Reply
from service.api.http.places import Place, Places
from tests.service.api.test_uvicorn import Transport

KEEP_ALIVE_S, HEAD_S, IDLE_S = 15, 20, 30
BODY_MAX = 40
KNOWN = {b"host", b"content-length", b"connection"}
# What a body begins with says how the fast path takes it.
REPLIES, HANDS_OVER, HANDS_OVER_LATER = b"r", b"h", b"l"


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time moves by hand."""

    now = 0.0

    def time(self) -> float:
        return self.now

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        return [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]


class Closing(Transport):
    """Takes nothing once it is closed, as a connection on which nothing waits to be read."""

    def write(self, data: Any) -> None:
        if not self.closing:
            super().write(data)


class Side:
    """A connection with the fast path or without, and what answers its requests when it is told to."""

    def __init__(self, loop: Clock, *, fast: bool) -> None:
        self.loop = loop
        self.unanswered: list[Callable[[], object]] = []
        self.begun = self.taken = 0
        self.problems: list[str] = []
        self.places = Places(connections_max=10, address_max=10)
        self.server = ServerState()
        kind = bounded_protocol(
            idle_s=IDLE_S, head_s=HEAD_S, places=self.places, fast_path=self if fast else None,
            count_problem=lambda error: self.problems.append(type(error).__name__),
        )  # fmt: skip
        config = uvicorn.Config(
            self.app, http=kind, ws="none", log_config=None, timeout_keep_alive=KEEP_ALIVE_S, interface="asgi3"
        )
        config.load()
        self.made: Any = kind(config, self.server, {}, loop)  # type: ignore[call-arg]
        self.transport = Closing()
        self.made.connection_made(self.transport)
        self.is_lost = self.is_half_closed = False

    def read(self, scope: Any) -> "Head | None":
        names = [name for name, _ in scope["headers"]]
        length = dict(scope["headers"]).get(b"content-length", b"")
        is_plain = set(names) <= KNOWN and len(set(names)) == len(names) and scope["path"] in ("/fast", "/refused")
        head = Head(self, scope["path"])
        return head if is_plain and length.isdigit() and head.takes(int(length)) else None

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        place: Place = scope["state"]["place"]
        place.admit("")
        self.begun += "was_begun" not in scope["state"]
        if scope["path"] == "/refused":
            await reply(send, 404, b"")
            return
        body, more = b"", True
        try:
            while more:
                async with asyncio.timeout(IDLE_S):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body, more = body + message["body"], message["more_body"]
        except TimeoutError:
            await reply(send, 408, b"")
            return
        if "is_released" not in scope["state"]:
            released = asyncio.Event()
            self.unanswered.append(released.set)
            await released.wait()
        await reply(send, 200, answer(scope["path"].encode(), body))

    def act(self, name: str, *given: Any) -> None:
        getattr(self, name)(*given)

    def send(self, piece: bytes) -> None:
        if not self.transport.closing and not self.is_half_closed:
            self.made.data_received(piece)

    def release(self) -> None:
        self.settle()
        if self.unanswered:
            self.resume()
            self.unanswered.pop(0)()
        self.settle()

    def settle(self) -> None:
        async def rest() -> None:
            for _ in range(12):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rest())

    def advance(self, seconds: float) -> None:
        until = self.loop.now + seconds
        self.settle()
        while self.loop.now < until:
            self.loop.now = min([until, *(timer.when() for timer in self.loop.timers)])
            self.settle()

    def pause(self) -> None:
        if not self.transport.closing and not self.transport.unread:
            self.transport.unread = 1
            self.made.pause_writing()

    def resume(self) -> None:
        if self.transport.unread and not self.transport.closing:
            self.transport.unread = 0
            self.made.resume_writing()

    def half_close(self) -> None:
        """The client sends no more, and reads on."""
        self.is_half_closed = True
        if not self.transport.closing and not self.made.eof_received():
            self.lose(None)
        self.settle()

    def shutdown(self) -> None:
        if not self.is_lost:
            self.made.shutdown()
        self.settle()

    def make_room(self) -> None:
        self.settle()
        if (
            not self.transport.closing
            and (self.made._awaits_request() or self.made._in_head)
            and self.made._place.may_make_room
        ):
            self.made._place.leave()
            self.made._place.make_room()
        self.settle()

    def lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self.transport.closing = True
            self.made.connection_lost(error)
        self.settle()

    def finish(self) -> None:
        """Answer all that is whole, see what the next request is taken for, and let all time pass."""
        self.resume()
        for seconds in (3, 3, IDLE_S + 1):
            self.advance(seconds)
            while self.unanswered:
                self.release()
        self.send(b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n")
        self.settle()
        while self.unanswered:
            self.release()
        self.advance(100)
        self.lose(None)
        while self.unanswered:
            self.release()

    @property
    def written(self) -> bytes:
        return self.transport.written

    @property
    def left(self) -> tuple[int, int, int]:
        """What is left once the connection has gone: timers, tasks, places."""
        self.settle()
        return len(self.loop.timers), len(self.made.tasks), self.places._count


async def reply(send: Any, status: int, body: bytes) -> None:
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


def answer(path: bytes, body: bytes) -> bytes:
    return path + b" " + body


class Head(NamedTuple):
    side: Side
    path: str

    def takes(self, body_bytes: int) -> bool:
        return body_bytes <= BODY_MAX

    def request(self, place: Place, client: str) -> "Request":
        return Request(self.side, self.path.encode(), place, {})


class Request(NamedTuple):
    side: Side
    path: bytes
    place: Place
    state: dict[str, object]

    def answer(self, body: bytes, write: Reply, hand_over: HandOver) -> None:
        side = self.side
        side.begun += 1
        self.state["was_begun"] = True
        self.place.admit("")
        said = answer(self.path, body)

        def finish() -> None:
            if body.startswith(HANDS_OVER_LATER):
                self.state["is_released"] = True
                hand_over()
            else:
                side.taken += 1
                write(200, b"content-length: %d\r\n" % len(said), said)

        if self.path == b"/refused" or body.startswith(HANDS_OVER):
            hand_over()
        else:
            self.state["finish"] = finish
            side.unanswered.append(finish)

    def leave(self) -> None:
        if "finish" in self.state and self.state["finish"] in self.side.unanswered:
            self.side.unanswered.remove(self.state["finish"])  # type: ignore[arg-type]


def post(path: bytes, body: bytes, *lines: bytes) -> bytes:
    head = [b"POST %b HTTP/1.1" % path, b"Host: a", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join([*head, b"", b""]) + body


FAST = post(b"/fast", b"r")
GET = b"GET /app HTTP/1.1\r\nHost: a\r\n\r\n"

bodies = st.builds(
    lambda kind, size: (kind + b"0123456789" * 5)[:size],
    st.sampled_from([REPLIES, REPLIES, HANDS_OVER, HANDS_OVER_LATER]),
    st.sampled_from([1, 2, 9, 10, 30, BODY_MAX, BODY_MAX + 1]),
)
fast_messages = st.builds(post, st.just(b"/fast"), bodies)
requests = st.one_of(
    fast_messages,
    fast_messages,
    fast_messages,
    st.just(post(b"/fast", b"")),
    st.just(post(b"/fast", FAST)),
    st.builds(lambda body: post(b"/fast", body, b"X: y"), bodies),
    st.builds(lambda body: b"\r\n" + post(b"/fast", body), bodies),
    st.builds(lambda body: post(b"/fast", body, b"Connection: close"), bodies),
    st.builds(lambda body: post(b"/fast", body, b"Connection: upgrade", b"Upgrade: h2c"), bodies),
    st.just(post(b"/app", b"abc")),
    st.just(GET),
    st.just(b"POST /fast HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"),
    st.just(b"\r\n"),
)
wrong = st.sampled_from([b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", post(b"/fast", b"", b"Host: b"), FAST[:30]])
happenings = st.one_of(
    st.just(("settle",)),
    st.just(("release",)),
    st.just(("release",)),
    st.just(("advance", 0.5)),
    st.just(("advance", 2.5)),
    st.just(("pause",)),
    st.just(("resume",)),
)
ends = st.sampled_from(
    [("half_close",), ("shutdown",), ("make_room",), ("lose", None), ("lose", ConnectionResetError()), ("advance", 50)]
)


@st.composite
def cut(draw: st.DrawFn, message: bytes) -> list[bytes]:
    """A message whole, or cut behind its head or anywhere, once or twice."""
    head = message.find(b"\r\n\r\n") + 4
    at = draw(st.sampled_from([[], [], [head], [head], [head], [head - 1], [head + 1], [1], [head, head + 1]]))
    if draw(st.integers(0, 5)) == 0:
        at = [*at, draw(st.integers(0, len(message)))]
    places = sorted({0, len(message), *(one for one in at if 0 < one < len(message))})
    return [message[low:high] for low, high in pairwise(places)]


@st.composite
def scripts(draw: st.DrawFn, messages: st.SearchStrategy[bytes], ends: st.SearchStrategy[Any]) -> list[Any]:
    """A fast request and its answer, and then what clients send, with all that may happen meanwhile."""
    events: list[Any] = [("send", FAST), ("settle",), ("release",)] if draw(st.integers(0, 7)) else []
    glued = b""
    for message in draw(st.lists(messages, min_size=1, max_size=4)):
        *pieces, last = draw(cut(message)) if message else [b""]
        for piece in pieces:
            events.append(("send", glued + piece))
            glued = b""
            events += draw(st.lists(happenings, max_size=2))
        if draw(st.integers(0, 2)) == 0:
            glued += last
            continue
        events.append(("send", glued + last))
        glued = b""
        events += draw(st.lists(happenings, max_size=3))
    if glued:
        events.append(("send", glued))
    for end in draw(st.lists(ends, max_size=2)):
        events.insert(draw(st.integers(min(3, len(events)), len(events))), end)
    return events


def play(events: Sequence[Any], *, fast: bool) -> tuple[Side, list[bytes]]:
    """What has come back after each event, and at the end."""
    loop = Clock()
    asyncio.set_event_loop(loop)
    try:
        side = Side(loop, fast=fast)
        said = []
        for name, *given in events:
            side.act(name, *given)
            said.append(side.written)
        side.settle()
        side.finish()
        assert side.left == (0, 0, 0)
        return side, [*said, side.written]
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(events=scripts(st.one_of(requests, requests, requests, wrong), ends))
def test_whatever_happens_the_same_comes_back_at_the_same_time(events: list[Any]) -> None:
    alone, said_alone = play(events, fast=False)
    fast, said_fast = play(events, fast=True)

    assert said_fast == said_alone
    assert fast.begun == alone.begun
    assert fast.problems == alone.problems


REFUSED = post(b"/refused", b"r")


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        pytest.param([], FAST + REFUSED[:-1], id="behind another request"),
        pytest.param([("send", REFUSED), ("settle",)], REFUSED[:-1], id="a repeated head"),
    ],
)
def test_the_body_of_a_head_is_waited_for_once(before: list[Any], sent: bytes) -> None:
    """After that the app may refuse it, for its client may send no more until it hears something."""
    events = [*before, ("send", sent), ("release",), ("advance", WHOLE_WITHIN_S)]
    _, said_alone = play(events, fast=False)
    _, said_fast = play(events, fast=True)

    assert said_fast[len(events) - 1].endswith(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    assert said_fast[len(events) - 1] == said_alone[len(events) - 1]


def test_a_connection_that_is_reset_is_told_nothing_later() -> None:
    """The next request's head had begun, which is no problem of the service once its client has gone."""
    loop = Clock()
    side = Side(loop, fast=False)
    side.send(FAST + FAST[:20])
    side.release()
    side.lose(ConnectionResetError())
    side.advance(100)
    loop.close()

    assert side.problems == []
