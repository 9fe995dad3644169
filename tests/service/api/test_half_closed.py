"""Clients that send no more and still read, on real sockets; beside them those that have gone."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from queue import Queue
from typing import Any

import pytest

from tests.conftest import PATIENCE_S
from tests.service.api.conftest import protocol, serving

Address = tuple[str, int]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LARGE = b"x" * 4_000_000


class App:
    """Answers `/waits` when it may, and knows who has left before; its answer ends with the request's path and body."""

    def __init__(self) -> None:
        self.asked, self.left = Queue[str](), Queue[str]()
        self.may_answer = threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, body, more = scope["path"], b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.put(path)
                return
            body, more = body + message["body"], message["more_body"]
        self.asked.put(path)
        answer = (LARGE if path == "/large" else b"") + path.encode() + body
        headers = [] if path == "/streams" else [(b"content-length", str(len(answer)).encode())]
        if path == "/waits" and not await self._waits(receive):
            self.left.put(path)
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if path == "/streams":
            await send({"type": "http.response.body", "body": b"begins", "more_body": True})
            if not await self._waits(receive):
                self.left.put(path)
                return
        await send({"type": "http.response.body", "body": answer})

    async def _waits(self, receive: Any) -> bool:
        """Whether the client is still there when it may be answered."""
        leaving = asyncio.create_task(receive())
        answering = asyncio.create_task(asyncio.to_thread(self.may_answer.wait, PATIENCE_S))
        await asyncio.wait([leaving, answering], return_when=asyncio.FIRST_COMPLETED)
        has_left = leaving.done()
        leaving.cancel()
        return not has_left


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture(params=["uvloop", "asyncio"])
def address(app: App, request: pytest.FixtureRequest) -> Iterator[Address]:
    with serving(app, http=protocol(), interface="asgi3", lifespan="off", loop=request.param) as address:  # type: ignore[arg-type]
        yield address
        app.may_answer.set()


def connect(address: Address, sent: bytes) -> "closing[socket.socket]":
    connection = socket.create_connection(address, timeout=PATIENCE_S)
    connection.sendall(sent)
    return closing(connection)


def ask(path: str, body: bytes = b"", version: str = "1.1") -> bytes:
    return f"POST {path} HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def read(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_what_was_asked_before_is_answered(app: App, address: Address) -> None:
    with connect(address, ask("/waits", b"!")) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert app.asked.get(timeout=PATIENCE_S) == "/waits"
        assert connection.recv(len(CONTINUE)) == CONTINUE
        app.may_answer.set()
        answered = HTTPResponse(connection)
        answered.begin()

        assert (answered.status, answered.read()) == (200, b"/waits!")
        assert answered.headers["connection"] == "close"
        assert read(connection) == b""
    assert app.left.empty()


def test_all_that_wait_in_a_row_are_answered_in_their_order(app: App, address: Address) -> None:
    with connect(address, ask("/waits", b"1") + ask("/waits", b"2") + ask("/large", b"3")) as connection:
        connection.shutdown(socket.SHUT_WR)
        app.asked.get(timeout=PATIENCE_S)
        app.may_answer.set()
        said = read(connection).replace(CONTINUE, b"").replace(LARGE, b"")

    assert [one.partition(b"\r\n\r\n")[2] for one in said.split(b"HTTP/1.1 200 OK")[1:]] == [
        b"/waits1", b"/waits2", b"/large3"
    ]  # fmt: skip
    assert app.left.empty()


def test_a_client_of_http_1_0_is_answered_and_sent_nothing_before(app: App, address: Address) -> None:
    with connect(address, ask("/waits", version="1.0")) as connection:
        connection.shutdown(socket.SHUT_WR)
        app.asked.get(timeout=PATIENCE_S)
        app.may_answer.set()
        said = read(connection)

    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert said.endswith(b"\r\n\r\n/waits")


def test_a_reply_that_has_begun_goes_on_to_its_end(app: App, address: Address) -> None:
    with connect(address, ask("/large")) as connection:
        begun = connection.recv(12)
        connection.shutdown(socket.SHUT_WR)
        said = begun + read(connection)

    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert said.endswith(LARGE + b"/large")
    assert CONTINUE not in said


@pytest.mark.parametrize("row", [1, 2])
def test_one_that_has_gone_is_noticed_before_it_is_answered(app: App, address: Address, row: int) -> None:
    with connect(address, row * ask("/waits")):
        assert app.asked.get(timeout=PATIENCE_S) == "/waits"

    assert app.left.get(timeout=PATIENCE_S) == "/waits"
    assert app.asked.empty()


def test_a_stream_goes_on_to_its_end(app: App, address: Address) -> None:
    with connect(address, ask("/streams")) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        connection.shutdown(socket.SHUT_WR)
        app.may_answer.set()
        said = read(connection)

    assert b"begins" in said
    assert said.endswith(b"/streams\r\n0\r\n\r\n")
    assert CONTINUE not in said


def test_what_has_come_whole_is_answered_before_a_head_that_has_not(app: App, address: Address) -> None:
    with connect(address, ask("/waits", b"1") + ask("/waits", b"2")[:20]) as connection:
        connection.shutdown(socket.SHUT_WR)
        app.asked.get(timeout=PATIENCE_S)
        app.may_answer.set()
        said = read(connection)

    assert said.endswith(b"\r\n\r\n/waits1")
    assert app.asked.empty()


@pytest.mark.parametrize("sent", [ask("/waits")[:20], ask("/waits", b"12")[:-1]], ids=["a head", "a body"])
def test_what_has_not_come_whole_is_not_answered(app: App, address: Address, sent: bytes) -> None:
    with connect(address, sent) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert read(connection) == b""

    assert app.asked.empty()
