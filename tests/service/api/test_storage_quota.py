"""The storage quota: an upload is asked for before it is written, by its declared size or as it comes."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from service.api.app import create_app
from service.api.context import AppContext
from service.domain.quotas import Quotas
from service.engine.embedded import EmbeddedEngine
from service.storage.database import Store
from tests.conftest import PATIENCE_S, lasting_bytes, stored_bytes, wait_until
from tests.service.api.conftest import Address, Tracer, assert_problem, authorized, serving, start_engine
from tests.service.api.test_submission import MULTIPART, UPLOADED, multipart, request
from tests.service.api.test_uploads import has_bytes

MIB = 2**20
QUOTAS = Quotas(stored_max_bytes=2 * MIB)
STEP_BYTES = 100_000


@pytest.fixture
def engine(store: Store, tracer: Tracer) -> Iterator[EmbeddedEngine]:
    engine = start_engine(store, tracer, QUOTAS)
    yield engine
    engine.stop()


@pytest.fixture
def address(context: AppContext) -> Iterator[Address]:
    """A service that asks for keys, in which each tenant has little room."""
    with serving(create_app(replace(context, keys_required=True, quotas=QUOTAS))) as address:
        yield address


@pytest.fixture
def headers(store: Store) -> dict[str, str]:
    return {**authorized(store), **MULTIPART}


def body(byte_size: int, begin: Callable[[], object] = lambda: None) -> Iterator[bytes]:
    """A submission with a file of so many bytes. `begin` is called before each piece of it."""
    yield multipart(request(source=UPLOADED), ("files", "net.py", b""), end=b"").removesuffix(b"\r\n")
    for sent in range(0, byte_size, STEP_BYTES):
        begin()
        yield b"#" * min(STEP_BYTES, byte_size - sent)
    yield b"\r\n--b--\r\n"


def upload(byte_size: int) -> bytes:
    return b"".join(body(byte_size))


@contextmanager
def sending(address: Address, headers: dict[str, str], declared: int, first: bytes) -> Iterator[socket.socket]:
    """A connection on which a submission of that declared size has begun."""
    lines = {**headers, "host": "localhost", "content-length": str(declared)}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(f"POST /trace HTTP/1.1\r\n{head}\r\n".encode() + first)
        yield connection


def staged_bytes(staged: Path) -> int:
    found = 0
    for file in staged.iterdir():
        with suppress(FileNotFoundError):  # it is removed beside this
            found += file.stat().st_size
    return found


def test_a_declared_size_that_is_too_large_is_refused_before_anything_is_sent(
    address: Address, headers: dict[str, str]
) -> None:
    with sending(address, headers, declared=2 * MIB + 1, first=b"") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


def test_an_upload_of_unknown_size_is_refused_in_the_middle(
    live: httpx.Client, headers: dict[str, str], staged: Path, store: Store
) -> None:
    seen: list[int] = []

    def look() -> None:
        if len(seen) == 15:  # enough has been sent, and less than there is room for
            wait_until(lambda: has_bytes(staged))
        seen.append(staged_bytes(staged))

    answer = live.post("/trace", content=body(20 * MIB, look), headers=headers)

    problem = assert_problem(answer, 403, "storage-quota-exceeded")
    assert (problem["limit"], problem["stored_bytes"], problem["staged_bytes"]) == (
        2 * MIB,
        lasting_bytes(store, "acme"),
        0,
    )
    assert 0 < max(seen) <= 2 * MIB
    assert list(staged.iterdir()) == []
    assert live.post("/trace", content=body(MIB), headers=headers).status_code == 202
    assert stored_bytes(store, "acme") > MIB


def test_what_arrives_of_another_upload_counts(
    address: Address, live: httpx.Client, headers: dict[str, str], staged: Path, store: Store
) -> None:
    large = upload(MIB + MIB // 2)
    with sending(address, headers, len(large), large[:-1000]) as connection:
        wait_until(lambda: has_bytes(staged))

        refused = live.post("/trace", content=upload(MIB), headers=headers)
        others = live.post("/trace", content=upload(MIB), headers=headers | authorized(store, tenant="other"))

        assert assert_problem(refused, 403, "storage-quota-exceeded")["staged_bytes"] == len(large)
        assert others.status_code == 202
        connection.sendall(large[-1000:])
        assert connection.recv(100).startswith(b"HTTP/1.1 202 ")


def test_an_upload_that_breaks_off_leaves_its_room_to_others(
    address: Address, live: httpx.Client, headers: dict[str, str], staged: Path, store: Store
) -> None:
    with sending(address, headers, 2 * MIB - 10_000, upload(MIB + MIB // 2)):  # the audit log has an entry already
        wait_until(lambda: has_bytes(staged))
    wait_until(lambda: store.allowances.taken_bytes("acme") == 0)

    assert live.post("/trace", content=upload(MIB), headers=headers).status_code == 202
