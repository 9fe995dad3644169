"""Connections of clients that send too much, too slowly, or are too many."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from service.api.context import AppContext
from service.api.http.connection import (
    CHUNK_BYTES_MIN,
    HEAD_MAX_BYTES,
    HEADER_MAX_BYTES,
    HEADERS_MAX,
    PIPELINE_MAX,
    SHORT_CHUNKS_MAX,
)
from service.api.http.places import Places
from tests.conftest import PATIENCE_S
from tests.service.api.conftest import protocol, serving, spec

pytestmark = pytest.mark.slow

IDLE_S = 1.0
ROOT = Path(__file__).parents[3]


@pytest.fixture
def address(app: FastAPI) -> Iterator[tuple[str, int]]:
    with serving(app, http=protocol(idle_s=IDLE_S, head_s=IDLE_S)) as address:
        yield address


@contextmanager
def connected(address: tuple[str, int]) -> Iterator[socket.socket]:
    with closing(socket.create_connection(address, timeout=PATIENCE_S)) as connection:
        yield connection


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    with suppress(ConnectionResetError):  # it was closed with bytes of ours unread
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def send(connection: socket.socket, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it did not wait for all of them
        connection.sendall(data)


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * (HEAD_MAX_BYTES + 20_000),
        b"X: a\r\n" * (HEADERS_MAX + 1),
        (b"X: " + b"a" * 1000 + b"\r\n") * 100,
        b"X: " + b"a" * HEADER_MAX_BYTES + b"\r\n\r\n",
    ],
    ids=["one without end", "many", "many that are long", "a long one"],
)
def test_headers_without_end_are_refused(address: tuple[str, int], head: bytes) -> None:
    with connected(address) as connection:
        send(connection, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + head)
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 431 ")
    assert b'"code": "headers-too-large"' in said


def test_a_trailer_without_end_is_refused(address: tuple[str, int]) -> None:
    head = (
        b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with connected(address) as connection:
        send(connection, head + b"2\r\n{}\r\n0\r\nX: " + b"a" * (HEAD_MAX_BYTES + 40_000))
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 431 ")


CHUNKED = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("byte_size", [1, CHUNK_BYTES_MIN - 1])
def test_a_body_of_very_short_chunks_is_refused_before_it_ends(address: tuple[str, int], byte_size: int) -> None:
    """Each byte of it would cost some microseconds of the event loop: megabytes of them stop everybody's requests."""
    chunk = b"%x\r\n%s\r\n" % (byte_size, b" " * byte_size)
    with connected(address) as connection:
        send(connection, b"POST /trace HTTP/1.1\r\n" + CHUNKED + chunk * (SHORT_CHUNKS_MAX + 1))
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert b'"code": "chunks-too-short"' in said


def test_a_body_of_short_chunks_that_nobody_wants_is_not_read_to_its_end(address: tuple[str, int]) -> None:
    with connected(address) as connection:
        send(connection, b"GET /livez HTTP/1.1\r\n" + CHUNKED + b"1\r\n \r\n" * SHORT_CHUNKS_MAX)
        assert connection.recv(12) == b"HTTP/1.1 200"
        send(connection, b"1\r\n \r\n" * 10)
        said = answer(connection)  # which ends, although more of the body could come

    assert b"HTTP/1.1" not in said


@pytest.mark.parametrize(
    ("byte_size", "count"), [(1, SHORT_CHUNKS_MAX - 2), (CHUNK_BYTES_MIN + 1, 2 * SHORT_CHUNKS_MAX), (40_000, 2)]
)
def test_a_body_of_other_chunks_is_read(live: httpx.Client, byte_size: int, count: int) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'"'
        for _ in range(count):
            yield b"x" * byte_size
        yield b'"'

    answer = live.post("/trace", content=chunks(), headers={"content-type": "application/json"})

    assert answer.json()["code"] == "invalid-request"


def test_what_follows_a_request_does_not_break_into_its_reply(address: tuple[str, int]) -> None:
    with connected(address) as connection:
        send(connection, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\x00bad\r\n\r\n")
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b"HTTP/1.1") == 1


UPGRADE = b"Connection: keep-alive, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"


@pytest.mark.parametrize("chunked", [False, True], ids=["of a length", "in chunks"])
def test_a_body_of_a_request_that_asks_for_another_protocol_is_no_request(
    address: tuple[str, int], *, chunked: bool
) -> None:
    """Such as the first one of Java's client, which asks for HTTP/2."""
    inner = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(inner)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner) if chunked else inner
    head = b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + UPGRADE + length
    last = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(address) as connection:
        send(connection, head + b"\r\n\r\n" + body + last)
        said = answer(connection)

    assert said.count(b"HTTP/1.1 ") == 2
    assert b'"code": "malformed-json"' in said
    assert b"(line 1, column 1)" in said
    assert said.count(b"HTTP/1.1 200 ") == 1


@pytest.mark.parametrize(
    ("version", "connection_header"),
    [(b"1.1", b"close, Upgrade"), (b"1.0", b"Upgrade")],
    ids=["that closes", "of HTTP/1.0"],
)
def test_the_last_request_of_a_connection_may_ask_for_another_protocol_and_is_answered(
    address: tuple[str, int], version: bytes, connection_header: bytes
) -> None:
    """Such as one of a proxy that passes on `Upgrade`, and speaks HTTP/1.0 with what is behind it."""
    head = (
        b"POST /trace HTTP/%b\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n" % version
    )
    with connected(address) as connection:
        send(connection, head + b"Connection: %b\r\nUpgrade: websocket\r\n\r\n{" % connection_header)
        said = answer(connection)

    assert b"\r\nHTTP/1.1 " not in said  # no second answer
    assert b'"code": "malformed-json"' in said


def read_status(connection: socket.socket) -> int:
    """Read one answer to its end, in however many pieces it comes, and return its status."""
    with HTTPResponse(connection) as answered:
        answered.begin()
        answered.read()
        return answered.status


def test_a_json_body_is_read_though_its_request_asks_for_another_protocol(address: tuple[str, int]) -> None:
    head = b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + UPGRADE
    with connected(address) as connection:
        send(connection, head + b"Content-Length: 2\r\n\r\n")
        send(connection, b"{}")
        assert read_status(connection) == 422
        send(connection, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE + b"\r\n")
        assert read_status(connection) == 200


def test_a_request_to_be_a_proxy_is_refused(address: tuple[str, int]) -> None:
    with connected(address) as connection:
        send(connection, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")

        assert answer(connection).startswith(b"HTTP/1.1 400 ")


def test_requests_that_wait_behind_another_are_bounded(address: tuple[str, int]) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(address) as connection:
        send(connection, request * 2)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    with connected(address) as connection:
        send(connection, request * (PIPELINE_MAX + 10_000))
        said = answer(connection)

    assert said.count(b"HTTP/1.1") <= PIPELINE_MAX


def test_a_large_body_is_no_head(live: httpx.Client) -> None:
    answer = live.post("/trace", content=b'"' + b"x" * 90_000 + b'"', headers={"content-type": "application/json"})

    assert answer.json()["code"] == "invalid-request"


def test_what_is_not_http_is_told_so(address: tuple[str, int]) -> None:
    with connected(address) as connection:
        send(connection, b"what is this?\r\n\r\n")
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert b'"code": "malformed-head"' in said


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (b"GET /livez HTTP/1.1\r\nAccept: */*\r\n\r\n", b"no Host"),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n", b"2 Host"),
        (b"POST /trace HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"chunked"),
        (b"POST /trace HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n", b"chunked"),
        (b"POST /trace HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"HTTP/1.0"),
    ],
)
def test_a_head_that_a_proxy_may_read_otherwise_is_refused(address: tuple[str, int], head: bytes, named: bytes) -> None:
    with connected(address) as connection:
        send(connection, head)
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nHTTP/1.1 " not in said  # no second answer
    assert b'"code": "malformed-head"' in said
    assert named in said


def test_http_1_0_needs_no_host(address: tuple[str, int]) -> None:
    with connected(address) as connection:
        send(connection, b"GET /livez HTTP/1.0\r\n\r\n")
        said = answer(connection)

    assert b"malformed-head" not in said


@pytest.mark.parametrize(("sent", "said"), [(b"", b""), (b"GET / HTTP/1.1\r\nX: a", b"HTTP/1.1 408 ")])
def test_a_head_that_does_not_come_is_not_waited_for(address: tuple[str, int], sent: bytes, said: bytes) -> None:
    with connected(address) as connection:
        send(connection, sent)

        assert answer(connection)[:13] == said


def test_of_too_many_connections_the_oldest_idle_one_is_told_to_come_again(app: FastAPI) -> None:
    places = Places(connections_max=2, address_max=10)
    with (
        serving(app, http=protocol(places=places)) as address,
        connected(address) as first,
        connected(address) as second,
        connected(address) as third,
    ):
        said = answer(first)
        for connection in (second, third):
            send(connection, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert answer(connection).startswith(b"HTTP/1.1 200 ")

    assert said.startswith(b"HTTP/1.1 503 ")
    assert b'"code": "too-many-connections"' in said
    assert b"\r\nRetry-After: 1\r\n" in said


BODY_BEGUN = (
    b"POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n"
    b"Connection: close\r\n\r\n{"
)


def test_a_body_that_stops_coming_is_not_waited_for(app: FastAPI, context: AppContext) -> None:
    object.__setattr__(context.limits, "request_idle_s", IDLE_S)
    with serving(app) as address, connected(address) as connection:
        send(connection, BODY_BEGUN)
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "request-timeout"' in said


def test_a_body_that_dribbles_is_not_waited_for(app: FastAPI, context: AppContext) -> None:
    object.__setattr__(context.limits, "request_idle_s", IDLE_S)
    with serving(app) as address, connected(address) as connection:
        send(connection, BODY_BEGUN)
        connection.settimeout(0.1)
        said = b""
        for _ in range(500):
            send(connection, b" ")
            with suppress(TimeoutError):
                said = answer(connection)
                break

    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"bytes_per_s_min": 1000' in said


def test_a_body_that_is_on_its_way_when_the_service_stops_is_told_so(app: FastAPI, context: AppContext) -> None:
    with serving(app) as address, connected(address) as connection:
        send(connection, BODY_BEGUN)
        context.stopping.set()
        said = answer(connection)

    assert said.startswith(b"HTTP/1.1 503 ")
    assert b'"code": "shutting-down"' in said


def test_streams_are_bounded(app: FastAPI, context: AppContext) -> None:
    object.__setattr__(context.limits, "streams_max", 1)
    with serving(app) as (host, port), httpx.Client(base_url=f"http://{host}:{port}", timeout=PATIENCE_S) as client:
        request = client.post("/trace", json=spec("stays")).json()
        with client.stream("GET", request["links"]["events"]) as stream:
            lines = stream.iter_lines()
            next(lines)
            refused = client.get(request["links"]["events"])
            client.post(request["links"]["cancel"])
            assert [*lines], "its end was told"
        ended = client.get(request["links"]["events"])

    assert (refused.status_code, refused.json()["code"]) == (503, "too-many-streams")
    assert ended.status_code == 200


def test_a_stream_whose_client_lost_its_network_ends() -> None:
    own_network = ["unshare", "--map-root-user", "--net"]
    if not shutil.which(own_network[0]) or subprocess.run([*own_network, "true"], check=False).returncode:
        pytest.skip("no network of its own can be made here")
    command = [*own_network, sys.executable, "-m", "tests.service.api.vanishing_client"]

    assert subprocess.check_output(command, text=True, cwd=ROOT) == "ended\n"


def test_head_is_get_without_a_body(live: httpx.Client) -> None:
    for path in ("/livez", "/trace", "/nope"):
        asked, got = live.head(path), live.get(path)
        assert (asked.status_code, asked.headers["content-length"], asked.content) == (
            got.status_code,
            got.headers["content-length"],
            b"",
        )


def test_head_of_a_stream_ends(live: httpx.Client) -> None:
    request = live.post("/trace", json=spec("stays")).json()

    assert live.head(request["links"]["events"]).headers["content-type"].startswith("text/event-stream")
