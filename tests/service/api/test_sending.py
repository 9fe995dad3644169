"""Replies of every kind that their clients do not read, on real sockets."""

import select
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from queue import Queue
from threading import Event
from time import sleep
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.api.context import AppContext
from service.api.held_bytes import HeldBytes, HeldLimits
from service.domain.api_key import DEFAULT_TENANT
from service.domain.errors import TooMuchUnread
from service.storage.artifacts import keep as keep_artifact
from service.storage.database import Store
from service.turns import TurnLimits, Turns
from tests.conftest import PATIENCE_S, keep, make_artifact, wait_until
from tests.service.api.conftest import protocol, serving, spec
from tracehouse.artifact.manifest import Printout
from tracehouse.artifact.printouts import write
from tracehouse.byte_units import MIB
from tracehouse.report.graph import svg

pytestmark = pytest.mark.slow

Address = tuple[str, int]

# A client's buffer and the connection's take a part of it.
LARGE_BYTES = 3 * MIB
TEXT = "x" * LARGE_BYTES
VIEWS = ["archive", "printouts/code"]


@pytest.fixture
def digest(store: Store) -> str:
    """An artifact of which every view but the graph is large."""
    code = Printout(kind="code", method="forward", submodule="", text=TEXT)
    graphs = [Printout(kind="inlined_graph", method=method, submodule="", text="") for method in ("forward", "left")]
    artifact = make_artifact(
        archive=keep(store.blobs, TEXT.encode()),
        printouts=keep(store.blobs, write([code, *graphs])),
    )
    with store.artifacts._transactions.write() as connection:
        keep_artifact(connection, DEFAULT_TENANT, artifact)
    return artifact.digest


@contextmanager
def asking(address: Address, path: str, *, keeping: bool = False) -> Iterator[socket.socket]:
    """A connection on which a reply comes that nobody reads."""
    with closing(socket.socket()) as connection:
        connection.settimeout(PATIENCE_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address)
        after = "keep-alive" if keeping else "close"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {after}\r\n\r\n".encode())
        yield connection


def read(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def is_cut(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP)
    return bool(waiting.poll(0))


def assert_answered_at_last(address: Address, path: str) -> None:
    def is_answered() -> bool:
        with asking(address, path) as connection:
            return connection.recv(12) == b"HTTP/1.1 200"

    wait_until(is_answered)


def with_room(context: AppContext, room_bytes: int) -> FastAPI:
    limits = HeldLimits(max_bytes=room_bytes, tenant_max_bytes=room_bytes)
    return create_app(replace(context, unread=HeldBytes(limits, TooMuchUnread)))


@pytest.mark.parametrize("view", VIEWS)
def test_a_reply_is_refused_while_another_is_unread(context: AppContext, digest: str, view: str) -> None:
    path = f"/artifacts/{digest}/{view}"
    with serving(with_room(context, MIB), http=protocol(idle_s=PATIENCE_S)) as address:
        with asking(address, path) as first:
            assert first.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
            with asking(address, path) as second:
                refused = read(second)
            whole = read(first)
        with asking(address, path) as third:
            again = read(third)

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b'"code": "too-much-unread"' in refused
    assert b"\r\nretry-after: 1\r\n" in refused
    assert TEXT.encode() in whole
    assert again.startswith(b"HTTP/1.1 200 "), "what was read makes room"


@pytest.mark.parametrize("view", VIEWS)
def test_a_client_that_does_not_read_is_cut_off_and_makes_room(context: AppContext, digest: str, view: str) -> None:
    path = f"/artifacts/{digest}/{view}"
    with (
        serving(with_room(context, MIB), http=protocol(idle_s=0.2)) as address,
        asking(address, path) as connection,
    ):
        wait_until(lambda: is_cut(connection))

        assert_answered_at_last(address, path)


def test_an_event_stream_that_nobody_reads_is_cut_off(context: AppContext, client: TestClient) -> None:
    request = client.post("/trace", json=spec("stays")).json()
    for _ in range(60):
        context.store.events.append(request["id"], "log", {"text": TEXT[:60_000]})
    app = create_app(context)
    with (
        serving(app, http=protocol(idle_s=0.2)) as address,
        asking(address, request["links"]["events"]) as connection,
    ):
        wait_until(lambda: is_cut(connection))
        wait_until(lambda: context.streams.of(DEFAULT_TENANT) == 0)
    client.post(request["links"]["cancel"])

    assert context.streams.of(DEFAULT_TENANT) == 0


@pytest.mark.parametrize("view", ["events", "log"])
def test_what_was_printed_is_held_a_little_at_a_time_for_clients_that_do_not_read(
    context: AppContext, client: TestClient, view: str
) -> None:
    request = client.post("/trace", json=spec("stays")).json()
    wait_until(lambda: client.get(request["links"]["self"]).json()["state"] == "running")
    pieces = [{"text": f"{number}" + "\N{GRINNING FACE}" * 16_000} for number in range(100)]
    context.store.events.append(request["id"], "log", *pieces)
    with serving(with_room(context, 64 * MIB)) as address, ExitStack() as opened:
        tracemalloc.start()
        opened.callback(tracemalloc.stop)
        for _ in range(10):
            connection = opened.enter_context(asking(address, request["links"][view]))
            assert any(
                "\N{GRINNING FACE}".encode() in piece for piece in iter(lambda one=connection: one.recv(64), b"")
            )
        held_bytes, _ = tracemalloc.get_traced_memory()
    client.post(request["links"]["cancel"])

    assert held_bytes < 25 * MIB  # of 61 for all


def test_a_client_that_leaves_a_pipeline_behind_is_noticed(
    context: AppContext, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, may_end = Queue[str](), Event()

    def draw(printout: Printout, *_: Any) -> str:
        drawn.put(printout.method)
        assert may_end.wait(PATIENCE_S)
        return "<svg/>"

    monkeypatch.setattr(svg, "draw", draw)
    one = Turns(TurnLimits(running_max=1, tenant_running_max=1, waiting_max=9, tenant_waiting_max=9))
    path = f"/artifacts/{digest}/graph.svg"
    app = create_app(replace(context, drawings=one))
    with (
        serving(app, http=protocol(idle_s=PATIENCE_S)) as address,
        asking(address, path) as first,
    ):
        drawn.get(timeout=PATIENCE_S)
        with asking(address, f"{path}?method=left", keeping=True) as second:
            wait_until(lambda: one.waiting == 1)
            second.sendall(f"GET {path}?method=left HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_until(lambda: one.waiting == 0)
        may_end.set()
        answered = read(first)

    assert answered.endswith(b"<svg/>")
    assert drawn.empty(), "what the client that left had asked for was drawn"


def test_event_streams_that_nobody_reads_hold_little(context: AppContext, client: TestClient, store: Store) -> None:
    streams, piece = 20, "x" * 30 * 1024
    request = client.post("/trace", json=spec("stays")).json()
    for _ in range(100):
        store.events.append(request["id"], "log", {"text": piece})

    with serving(create_app(context)) as address, ExitStack() as watchers:
        tracemalloc.start()
        watchers.callback(tracemalloc.stop)
        for _ in range(streams):
            watcher = watchers.enter_context(asking(address, request["links"]["events"]))
            assert watcher.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        wait_until(lambda: context.streams.total == streams)
        sleep(0.5)  # each has gone on until its connection took no more
        held, _ = tracemalloc.get_traced_memory()

    assert held < streams * 256 * 1024, "of the 3 MiB that each has to read"
