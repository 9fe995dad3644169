"""What service/api/http/connection.py leans on inside uvicorn: with a release that changes it, these tests fail.

The last of them show, on a connection that is none, what it makes of that.
"""

import ast
import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.api.http import connection
from service.api.http.connection import BoundedProtocol
from service.api.http.places import Places
from tests.service.api.conftest import protocol

REQUEST = b"POST /here HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
HOOKS = [
    "connection_made",
    "connection_lost",
    "data_received",
    "eof_received",
    "shutdown",
    "pause_writing",
    "resume_writing",
    "on_message_begin",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
    "on_response_complete",
    "timeout_keep_alive_handler",
    "send_400_response",
]


class Transport(asyncio.Transport):
    """The other side of a protocol, which keeps what is written, and closes once that was read."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 0
        self.closing = self.aborted = False
        self.ends: list[str] = []

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        self.closing = True
        self.ends.append("closed")

    def abort(self) -> None:
        self.closing = self.aborted = True
        self.ends.append("aborted")

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def app(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


P = TypeVar("P", bound=HttpToolsProtocol)


def opened(kind: type[P], keep_alive_s: int = 100) -> tuple[P, Transport]:
    """A connection that was just made. Call it in a running loop."""
    config = uvicorn.Config(app, http=kind, ws="none", log_config=None, timeout_keep_alive=keep_alive_s)
    config.load()
    made, transport = kind(config, ServerState(), {"of": "the app"}), Transport()
    made.connection_made(transport)
    return made, transport


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come to hold")


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def names_taken(*of: str) -> set[str]:
    """The attributes that the file takes from these expressions."""
    nodes = ast.walk(ast.parse(inspect.getsource(connection)))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) in of}


def test_uvicorn_has_what_is_taken_from_it() -> None:
    async def scenario() -> None:
        plain, transport = opened(HttpToolsProtocol)
        plain.data_received(REQUEST)
        taken = names_taken("self", "super()") - (vars(BoundedProtocol).keys() | BoundedProtocol.__annotations__.keys())
        assert {"transport", "cycle", "pipeline", "scope"} <= taken
        for of, names in (
            (plain, taken),
            (plain.cycle, names_taken("self.cycle", "cycle")),
            (transport, names_taken("self.transport")),
        ):
            assert {name for name in names if not hasattr(of, name)} == set()

    run(scenario)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_the_parameters_that_uvicorns_has(hook: str) -> None:
    ours, theirs = (inspect.signature(getattr(kind, hook)) for kind in (BoundedProtocol, HttpToolsProtocol))

    assert [*ours.parameters] == [*theirs.parameters]
    assert hook in vars(BoundedProtocol)


class Recorder(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[str] = []
        self.states: list[Any] = []

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.calls.append(f"headers, {len(self.pipeline)} wait")
        self.states.append(self.scope["state"])

    def on_response_complete(self) -> None:
        self.calls.append("response")
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        self.calls.append("keep alive")
        super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        self.calls.append("400")

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"Bad":
            raise ValueError
        super().on_header(name, value)


def test_uvicorn_calls_the_hooks_in_the_order_that_is_relied_on() -> None:
    async def scenario() -> None:
        made, transport = opened(Recorder)
        assert made in made.connections
        made.data_received(REQUEST)
        cycle: RequestResponseCycle = made.cycle
        await asyncio.sleep(0)
        assert (cycle.response_started, cycle.response_complete, cycle.more_body, cycle.keep_alive) == (
            (False, False, True, True)
        )
        made.data_received(b"{}" + REQUEST)
        assert not cycle.more_body
        await until(lambda: "response" in made.calls)
        made.data_received(b"{}")
        await until(lambda: made.cycle.response_complete)

        assert made.calls == ["headers, 0 wait", "headers, 1 wait", "response", "response"]
        assert made.states == [{"of": "the app"}] * 2
        assert made.states[0] is not made.states[1]
        assert transport.written.count(b"HTTP/1.1 200 ") == 2
        made.connection_lost(None)
        assert made not in made.connections

    run(scenario)


def test_uvicorn_closes_what_is_to_close_before_it_says_that_the_response_is_complete() -> None:
    async def scenario() -> None:
        made, transport = opened(Recorder)
        made.data_received(REQUEST)
        made.cycle.keep_alive = False
        made.data_received(b"{}")
        await until(lambda: made.calls[-1] == "response")

        assert transport.closing
        assert b"connection: close" in transport.written

    run(scenario)


def test_uvicorn_reports_an_error_of_a_hook_as_a_bad_request() -> None:
    async def scenario() -> None:
        made, _ = opened(Recorder)
        made.data_received(b"GET / HTTP/1.1\r\nBad: header\r\n\r\n")

        assert made.calls == ["400"]

    run(scenario)


def test_uvicorn_calls_the_handler_when_no_next_request_comes() -> None:
    async def scenario() -> None:
        made, transport = opened(Recorder, keep_alive_s=0)
        made.data_received(REQUEST + b"{}")
        await until(lambda: transport.closing)

        assert made.calls[-1] == "keep alive"

    run(scenario)


def test_a_closed_connection_whose_reply_is_not_read_is_given_up() -> None:
    async def scenario() -> None:
        made, transport = opened(protocol(idle_s=0.01))
        made.data_received(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b"{}")
        await until(lambda: transport.aborted)

        assert transport.ends[0] == "closed"

    run(scenario)


def test_an_idle_connection_whose_reply_is_not_read_is_given_up() -> None:
    async def scenario() -> None:
        made, transport = opened(protocol(idle_s=0.01), keep_alive_s=0)
        made.data_received(REQUEST + b"{}")
        await until(lambda: transport.aborted)

        assert transport.written.startswith(b"HTTP/1.1 200 ")

    run(scenario)


def test_a_connection_that_makes_room_says_why_unless_a_reply_was_the_last_word() -> None:
    async def scenario() -> None:
        crowded = protocol(places=Places(connections_max=10, address_max=1))
        (_, fresh), (asked, unanswered) = opened(crowded), opened(crowded)
        asked.data_received(REQUEST)
        made, answered = opened(crowded)
        made.data_received(REQUEST + b"{}")
        await until(lambda: made.cycle.response_complete)
        opened(crowded)

        assert fresh.written.startswith(b"HTTP/1.1 503 ")
        assert unanswered.written.startswith(b"HTTP/1.1 503 ")
        assert answered.written.count(b"HTTP/1.1") == 1
        assert fresh.closing
        assert unanswered.closing
        assert answered.closing

    run(scenario)


def test_a_connection_that_makes_room_is_cut_if_its_reply_is_not_read() -> None:
    async def scenario() -> None:
        crowded = protocol(places=Places(connections_max=10, address_max=1))
        made, transport = opened(crowded)
        made.data_received(REQUEST + b"{}")
        await until(lambda: made.cycle.response_complete)
        transport.unread = 1
        assert not transport.aborted
        opened(crowded)

        assert transport.aborted

    run(scenario)
