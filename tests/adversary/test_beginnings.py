"""Connections that ask again as soon as they are answered, whatever they are answered: others' requests begin, too."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

import httpx
import pytest

from tests.adversary.conftest import StartTenants, Tenants
from tests.conftest import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

CONNECTIONS = 150
ASKED = 4
# More than one tenant has by itself; one address has 500.
SETTINGS = {"TENANT_CONNECTIONS_MAX": "400"}


class Flood:
    """So many connections, each of which sends its request again after each reply. `replies` counts all of these."""

    def __init__(self, tenants: Tenants, request: bytes) -> None:
        url = httpx.URL(tenants.service.address)
        self._request = request
        self._stops = Event()
        self._thread = Thread(target=self._run)
        self._connections: dict[int, socket.socket] = {}
        self.replies = 0
        for _ in range(CONNECTIONS):
            connection = socket.create_connection((url.host, url.port), timeout=PATIENCE_S)
            connection.sendall(request)
            self._connections[connection.fileno()] = connection

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()
        for connection in self._connections.values():
            connection.close()

    def _run(self) -> None:
        poll = select.poll()
        for descriptor in self._connections:
            poll.register(descriptor, select.POLLIN)
        while not self._stops.is_set():
            for descriptor, _ in poll.poll(100):
                with suppress(OSError):
                    self._answer(self._connections[descriptor])

    def _answer(self, connection: socket.socket) -> None:
        """Whatever comes is one reply: they are short."""
        if connection.recv(65536).startswith(b"HTTP/1.1 "):
            self.replies += 1
            connection.sendall(self._request)


@contextmanager
def flooding(tenants: Tenants, request: bytes) -> Iterator[Flood]:
    flood = Flood(tenants, request)
    with ExitStack() as stack:
        stack.callback(flood.stop)
        flood.start()
        wait_until(lambda: flood.replies > CONNECTIONS)
        yield flood


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def test_a_request_does_not_wait_for_each_of_them(start_tenants: StartTenants) -> None:
    """Of requests that all begin as they come, each gets a step after each step of all the others."""
    tenants = start_tenants(**SETTINGS)
    floods = {
        "health": head("/livez"),
        "without a key": head("/trace"),
        "with a key": head("/nothing", f"Authorization: Bearer {tenants.attacker.token}"),
    }
    with tenants.victim.http as client:
        assert client.get("/models").status_code == 200
    for name, request in floods.items():
        with flooding(tenants, request) as flood, tenants.victim.http as client:
            before = flood.replies
            assert [client.get("/models").status_code for _ in range(ASKED)] == [200] * ASKED
            meanwhile = flood.replies - before

        assert meanwhile < ASKED * CONNECTIONS / 2, f"others waited for all of those {name}"
