"""Two tenants of a real service in a process of its own: one attacks it over real sockets, the other only works.

No outcome hangs on the machine's speed: what is compared is order, what the service says, and what it holds.
"""

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import psutil
import pytest

from service.domain.api_key import Scope
from service.storage.database import Store
from tests.acceptance.conftest import ANSWER_S, Service
from tests.conftest import NewStore


@dataclass(frozen=True)
class Tenant:
    """A client with a key of its own."""

    name: str
    service: Service
    token: str

    @property
    def http(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.service.address,
            timeout=ANSWER_S,
            headers={"authorization": f"Bearer {self.token}"},
            verify=False,
        )

    def send(self, method: str, path: str, body: bytes = b"") -> socket.socket:
        """Send a request on a connection of its own, whose reply nobody reads yet. It takes little in by itself."""
        url = httpx.URL(self.service.address)
        connection = socket.socket()
        connection.settimeout(ANSWER_S)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((url.host, url.port))
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        return connection

    def logged(self, path: str) -> list[int]:
        """The statuses of the tenant's requests for this path, as the access log has them: one when a request ends."""
        lines = [orjson.loads(line) for line in self.service.log.read_bytes().splitlines() if line.startswith(b"{")]
        return [line["status"] for line in lines if line.get("tenant") == self.name and line.get("path") == path]


@dataclass(frozen=True)
class Tenants:
    """Both tenants of one service."""

    service: Service
    attacker: Tenant
    victim: Tenant

    @property
    def resident_bytes(self) -> int:
        """The memory of the service's own process, without those that it forks."""
        return int(psutil.Process(self.service.process.pid).memory_info().rss)


StartTenants = Callable[..., Tenants]


@pytest.fixture
def start_tenants(tmp_path: Path, new_store: NewStore) -> Iterator[StartTenants]:
    """Start a service with these settings; `prepare` gets its store before."""
    with ExitStack() as running:

        def start(prepare: Callable[[Store], object] = lambda _: None, **settings: str) -> Tenants:
            state = tmp_path / "state"
            state.mkdir(mode=0o700)
            store = new_store(state)
            tokens = {name: store.api_keys.create(name, name, [*Scope])[1] for name in ("attacker", "victim")}
            prepare(store)
            store.close()
            service = Service(state, API_KEYS="required", KEY_REQUESTS_PER_MINUTE="1000000", **settings)
            running.callback(service.close)
            attacker, victim = (Tenant(name, service, token) for name, token in tokens.items())
            return Tenants(service, attacker, victim)

        yield start


def replied(connections: Sequence[socket.socket]) -> list[socket.socket]:
    """The connections on which a reply, or the end, has begun to arrive."""
    waiting = select.poll()
    for connection in connections:
        waiting.register(connection, select.POLLIN)
    ready = {descriptor for descriptor, _ in waiting.poll(0)}
    return [connection for connection in connections if connection.fileno() in ready]


def status_of(connection: socket.socket) -> int:
    """The status of the reply, whose head must be all that is read of it."""
    return int(connection.recv(12).split()[1])


def is_cut(connection: socket.socket) -> bool:
    """Whether the service has ended the connection, without reading what it sent."""
    waiting = select.poll()
    waiting.register(connection, select.POLLRDHUP)
    return bool(waiting.poll(0))
