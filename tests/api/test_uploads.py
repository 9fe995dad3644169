"""Uploads over a real connection: cut off, broken off, too large, and more than memory should hold."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import httpx
import orjson
import pytest

from tests.api.conftest import UPLOAD_MAX_BYTES, problem, spec
from tests.api.test_submission import MULTIPART, NET, UPLOADED, multipart, request

Address = tuple[str, int]


def until(true: Callable[[], bool]) -> None:
    deadline = monotonic() + 10
    while not true():
        assert monotonic() < deadline, "it did not come to be"
        threading.Event().wait(0.01)


def head(content_length: int) -> bytes:
    return (
        "POST /trace HTTP/1.1\r\nHost: here\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        f"Content-Length: {content_length}\r\n\r\n"
    ).encode()


def has_bytes(staged: Path) -> bool:
    return any(file.stat().st_size for file in staged.iterdir())


@pytest.mark.parametrize("goodbye", ["closes", "resets"])
def test_an_upload_that_breaks_off_leaves_nothing(
    address: Address, staged: Path, caplog: pytest.LogCaptureFixture, goodbye: str
) -> None:
    body = multipart(request(source=UPLOADED), ("files", "net.py", b"x" * 2_000_000))
    with caplog.at_level(logging.ERROR), socket.create_connection(address) as connection:
        connection.sendall(head(len(body)) + body[:-1000])
        until(lambda: has_bytes(staged))
        if goodbye == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        until(lambda: list(staged.iterdir()) == [])

    assert httpx.get(f"http://{address[0]}:{address[1]}/trace").json()["trace_requests"] == []
    assert caplog.records == []


def test_an_upload_arrives_at_the_disk_while_it_comes(address: Address, staged: Path) -> None:
    body = multipart(request(source=UPLOADED), ("files", "net.py", b"x" * 2_500_000))
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head(len(body)) + body[:2_000_000])
        until(lambda: has_bytes(staged))
        connection.sendall(body[2_000_000:])

        assert connection.recv(100).startswith(b"HTTP/1.1 202 ")


@pytest.mark.parametrize("sent", ["with its length", "in chunks"])
def test_an_upload_that_is_too_large_is_answered_although_it_goes_on(live: httpx.Client, sent: str) -> None:
    pieces = UPLOAD_MAX_BYTES * 5 // 100_000

    def body() -> Iterator[bytes]:
        yield multipart(request(source=UPLOADED), NET, end=b"")
        yield from [b"x" * 100_000] * pieces

    length = {"content-length": str(sum(map(len, body())))} if sent == "with its length" else {}
    answer = live.post("/trace", content=body(), headers={**MULTIPART, **length})

    assert problem(answer, 413, "payload-too-large")["limit"] == UPLOAD_MAX_BYTES
    assert live.get("/livez").status_code == 200


def test_two_gib_declared_are_refused_before_any_are_sent(address: Address) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head(2**31))

        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_library_can_upload(live: httpx.Client) -> None:
    files = [
        ("request", ("request.json", orjson.dumps(spec(source=UPLOADED)), "application/json")),
        ("files", ("net.py", b"import torch\n")),
    ]

    assert live.post("/trace", files=files).status_code == 202
