"""Uploads over a real connection: cut off, broken off, too large, and more than memory should hold."""

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest
from fastapi.testclient import TestClient

from service.domain.errors import FilesUnavailable
from service.storage.database import Store
from tests.conftest import PATIENCE_S, wait_until
from tests.service.api.conftest import MANY_TURNS, UPLOAD_MAX_BYTES, assert_problem, spec
from tests.service.api.test_submission import MULTIPART, NET, UPLOADED, multipart, request
from tracehouse.spec.trace_spec import FILES_MAX

Address = tuple[str, int]


def head(content_length: int) -> bytes:
    return (
        "POST /trace HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
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
        wait_until(lambda: has_bytes(staged))
        if goodbye == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        wait_until(lambda: list(staged.iterdir()) == [])

    assert httpx.get(f"http://{address[0]}:{address[1]}/trace", timeout=PATIENCE_S).json()["trace_requests"] == []
    assert caplog.records == []


def test_an_upload_arrives_at_the_disk_while_it_comes(address: Address, staged: Path) -> None:
    body = multipart(request(source=UPLOADED), ("files", "net.py", b"x" * 2_500_000))
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head(len(body)) + body[:2_000_000])
        wait_until(lambda: has_bytes(staged))
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

    assert assert_problem(answer, 413, "payload-too-large")["limit"] == UPLOAD_MAX_BYTES
    assert live.get("/livez").status_code == 200


def test_files_whose_place_is_slow_keep_nothing_else_waiting(
    live: httpx.Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, is_there = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> None:
        begun.release()
        is_there.wait()
        raise FilesUnavailable("the store of the files: it is slow", retry_after_s=5)

    traced = live.post("/trace", json=spec()).json()
    wait_until(lambda: live.get(traced["links"]["self"]).json()["state"] == "succeeded")
    [artifact] = live.get(traced["links"]["self"]).json()["artifacts"]
    monkeypatch.setattr(store.blobs, "open", slow)
    monkeypatch.setattr(store.blobs, "begin_upload", slow)
    asks = [partial(live.post, "/trace", content=multipart(request(source=UPLOADED), NET), headers=MULTIPART)] * 4
    asks += [partial(live.get, f"/artifacts/{artifact['digest']}/archive")] * 4
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(ask) for ask in asks]
        try:
            for _ in range(MANY_TURNS.running_max):
                assert begun.acquire(timeout=PATIENCE_S)
            assert live.get("/trace").status_code == 200
        finally:
            is_there.set()
        assert {one.result().status_code for one in answers} == {503}


def test_two_gib_declared_are_refused_before_any_are_sent(address: Address) -> None:
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head(2**31))

        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_a_client_library_can_upload(live: httpx.Client) -> None:
    files = [
        ("request", ("request.json", orjson.dumps(spec(source=UPLOADED)), "application/json")),
        ("files", ("net.py", b"import torch\n")),
    ]

    assert live.post("/trace", files=files).status_code == 202


def test_more_files_than_a_request_may_have_are_refused_and_leave_nothing(client: TestClient, staged: Path) -> None:
    files = [("files", f"x{number}.npz", b"x") for number in range(FILES_MAX + 1)]

    answer = client.post("/trace", content=multipart(*files, request(source=UPLOADED)), headers=MULTIPART)

    assert assert_problem(answer, 422, "invalid-request")["limit"] == FILES_MAX
    assert list(staged.iterdir()) == []


def test_as_many_files_as_a_request_may_have_are_taken(client: TestClient) -> None:
    names = [f"x{number}.npz" for number in range(FILES_MAX - 1)]
    asked = request(source=UPLOADED, example_inputs=[{"file": name} for name in names])

    answer = client.post(
        "/trace", content=multipart(asked, NET, *(("files", name, b"x") for name in names)), headers=MULTIPART
    )

    assert answer.status_code == 202
