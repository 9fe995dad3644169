"""Connections that ask again as soon as they are answered, whatever they are answered: others' requests begin, too."""

import re
import select
import socket

import httpx
import pytest

from tests.adversary.conftest import StartTenants, Tenants
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.slow

CONNECTIONS = 150
ASKED = 20  # the fewest count: whoever is suspended meanwhile finds all of them answered
# More than one tenant has by itself; one address has 500.
SETTINGS = {"TENANT_CONNECTIONS_MAX": "400"}
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Flood:
    """So many connections, each of which sends its request again after each reply, and one that asks beside them.

    One thread reads all of them in turn: how fast it is says nothing of how many are answered before the one.
    """

    def __init__(self, tenants: Tenants, request: bytes) -> None:
        url = httpx.URL(tenants.service.address)
        self._request = request
        self._poll = select.poll()
        self._connections = [
            socket.create_connection((url.host, url.port), timeout=PATIENCE_S) for _ in range(CONNECTIONS + 1)
        ]
        self._by_descriptor = {connection.fileno(): connection for connection in self._connections}
        for connection in self._connections:
            self._poll.register(connection, select.POLLIN)
        self._beside, *others = self._connections
        for connection in others:
            connection.sendall(request)
        self._waiting_first = {*others}
        self._come = dict.fromkeys(self._connections, b"")  # of the reply that is arriving

    def begin(self) -> None:
        """Go on until each connection has been answered once."""
        while self._waiting_first:
            self._read()

    def count_until_answered(self, asked: bytes) -> int:
        """Return how many of the flood are answered before the request beside them is."""
        self._beside.sendall(asked)
        count = 0
        while True:
            replies, is_answered = self._read()
            count += replies
            if is_answered:
                return count

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _read(self) -> tuple[int, bool]:
        """Read what is there, one reply of each: return how many of the flood, and whether the one beside them is."""
        replies, is_answered = 0, False
        for descriptor, _ in self._poll.poll():
            connection = self._by_descriptor[descriptor]
            self._come[connection] += connection.recv(65536)
            if not is_whole(self._come[connection]):
                continue
            self._come[connection] = b""
            if connection is self._beside:
                is_answered = True
            else:
                replies += 1
                connection.sendall(self._request)
                self._waiting_first.discard(connection)
        return replies, is_answered


def is_whole(reply: bytes) -> bool:
    head, end, body = reply.partition(b"\r\n\r\n")
    return bool(end) and (length := LENGTH.search(head + b"\r\n")) is not None and len(body) == int(length[1])


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


def test_a_request_does_not_wait_for_each_of_them(start_tenants: StartTenants) -> None:
    """Of requests that all begin as they come, each gets a step after each step of all the others."""
    tenants = start_tenants(**SETTINGS)
    floods = {
        "health": head("/livez"),
        "without a key": head("/trace"),
        "with a key": head("/nothing", bearer(tenants.attacker.token)),
    }
    with tenants.victim.http as client:
        assert client.get("/models").status_code == 200
    asked = head("/nothing", bearer(tenants.victim.token))
    for name, request in floods.items():
        flood = Flood(tenants, request)
        flood.begin()
        counts = [flood.count_until_answered(asked) for _ in range(ASKED)]
        flood.close()

        assert min(counts) < CONNECTIONS / 2, f"others waited for all of those {name}: {counts}"
