"""Bodies that are on their way in: how much of them may be in memory."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest

from service.api.app import create_app
from service.api.context import AppContext
from service.api.held_bytes import SMALL_BYTES, HeldBytes, HeldLimits
from service.domain.errors import TooMuchArrives
from tests.conftest import PATIENCE_S, wait_until
from tests.service.api.conftest import assert_problem, serving, with_limits

LIMIT_BYTES = 3 * SMALL_BYTES
BODY = b'{"args": [[' + b" " * (2 * SMALL_BYTES)

Address = tuple[str, int]


@pytest.fixture
def arriving() -> HeldBytes:
    return HeldBytes(HeldLimits(max_bytes=LIMIT_BYTES, tenant_max_bytes=LIMIT_BYTES), TooMuchArrives)


@pytest.fixture
def address(context: AppContext, arriving: HeldBytes) -> Iterator[Address]:
    limited = with_limits(context, request_max_bytes=4 * LIMIT_BYTES, upload_max_bytes=4 * LIMIT_BYTES)
    with serving(create_app(replace(limited, arriving=arriving))) as address:
        yield address


@contextmanager
def half_sent(address: Address, arriving: HeldBytes, path: str = "/trace") -> Iterator[socket.socket]:
    """A connection on which two thirds of what may arrive have arrived, and more is to come."""
    with socket.create_connection(address, PATIENCE_S) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        connection.sendall(f"{head}{len(BODY) + 9}\r\n\r\n".encode() + BODY)
        wait_until(lambda: arriving.total_bytes >= len(BODY))
        yield connection


def send(address: Address, content: object, **headers: str) -> httpx.Response:
    headers = {"content-type": "application/json", "connection": "close", **headers}
    return httpx.post(f"http://{address[0]}:{address[1]}/trace", content=content, headers=headers, timeout=PATIENCE_S)  # type: ignore[arg-type]


def test_a_body_is_refused_while_too_much_of_another_one_is_in_memory(address: Address, arriving: HeldBytes) -> None:
    with half_sent(address, arriving):
        refused = send(address, BODY)
        small = send(address, b"{}")

    assert_problem(refused, 503, "too-much-arrives")
    assert refused.headers["retry-after"] == "1"
    assert_problem(small, 422, "invalid-request")


def test_a_body_that_does_not_say_its_length_is_refused_while_it_arrives(address: Address, arriving: HeldBytes) -> None:
    with half_sent(address, arriving):
        assert_problem(send(address, iter([BODY, BODY])), 503, "too-much-arrives")


def test_what_has_been_answered_or_given_up_makes_room(address: Address, arriving: HeldBytes) -> None:
    with half_sent(address, arriving):
        pass
    wait_until(lambda: arriving.total_bytes == 0)

    for _ in range(3):
        assert_problem(send(address, BODY), 400, "malformed-json")
    assert arriving.total_bytes == 0


def test_a_body_that_is_alone_may_be_larger_than_the_limit(address: Address) -> None:
    assert_problem(send(address, BODY * 3), 400, "malformed-json")


def test_of_a_multipart_body_the_request_counts_and_the_files_do_not(address: Address, arriving: HeldBytes) -> None:
    def part(name: str, content: bytes) -> bytes:
        return b'--b\r\nContent-Disposition: form-data; name="%s"; filename="a.pt"\r\n\r\n%s\r\n' % (
            name.encode(),
            content,
        )

    kind = "multipart/form-data; boundary=b"
    with half_sent(address, arriving):
        refused = send(address, iter([part("request", BODY), b"--b--"]), **{"content-type": kind})
        files = send(address, iter([part("files", BODY[:30_000]), b"--b--"]), **{"content-type": kind})

    assert_problem(refused, 503, "too-much-arrives")
    assert_problem(files, 400, "malformed-multipart")
