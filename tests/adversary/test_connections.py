"""Connections of an attacker, who opens more than the service has and keeps them, shut out neither a key nor health."""

import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from tests.acceptance.conftest import TRACEHOUSE, Service
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.slow

CONNECTIONS_MAX = 40
ADDRESS_MAX = 24
TENANT_MAX = 16
# How far a body may be behind its least rate. An honest sender on a busy machine must not stand still for so long.
IDLE_S = 8.0
# An honest sender on a busy machine must not take so long from connecting to its request, or to the next.
HEAD_S = 8.0
KEEP_ALIVE_S = 8
# All of 127/8 is this machine. The service trusts 127.0.0.1 to be a proxy; these are strangers.
ATTACKER, BYSTANDER = "127.0.0.2", "127.0.0.3"

Connect = Callable[..., socket.socket]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A key of each tenant, and under "state" the directory that they are in."""
    state = tmp_path_factory.mktemp("connections") / "state"
    made = {tenant: _make_key(state, tenant) for tenant in ("honest", "attacker", "accomplice")}
    return made | {"state": str(state)}


def _make_key(state: Path, tenant: str) -> str:
    command = [TRACEHOUSE, "keys", "create", tenant, "--tenant", tenant, "--state", state]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def service(keys: dict[str, str]) -> Iterator[Service]:
    running = Service(
        Path(keys["state"]),
        API_KEYS="required",
        CONNECTIONS_MAX=str(CONNECTIONS_MAX),
        ADDRESS_CONNECTIONS_MAX=str(ADDRESS_MAX),
        TENANT_CONNECTIONS_MAX=str(TENANT_MAX),
        REQUEST_IDLE_S=str(IDLE_S),
        REQUEST_HEAD_S=str(HEAD_S),
        KEEP_ALIVE_S=str(KEEP_ALIVE_S),
        BODY_BYTES_PER_S_MIN="500",
        KEY_REQUESTS_PER_MINUTE="100000",
    )
    yield running
    running.close()


@pytest.fixture
def connect(service: Service) -> Iterator[Connect]:
    """Open a connection from an address of this machine; it is closed after the test."""
    url = httpx.URL(service.address)
    with ExitStack() as opened:

        def connect(source: str = ATTACKER, sent: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
            connection = opened.enter_context(closing(socket.socket()))
            connection.settimeout(PATIENCE_S)
            if receive_buffer is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.bind((source, 0))
            connection.connect((url.host, url.port))
            send(connection, sent)
            return connection

        yield connect


def send(connection: socket.socket, data: bytes) -> bool:
    """Send it; False if the other side has closed."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)
        return True
    return False


def request(method: str, path: str, *headers: str, key: str | None = None) -> bytes:
    authorization = [] if key is None else [f"Authorization: Bearer {key}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *authorization, *headers, "", ""]).encode()


def upload_begun(key: str) -> bytes:
    return request("POST", "/trace", "Content-Type: application/json", "Content-Length: 60000", key=key) + b'{"x": "'


def answer(connection: socket.socket) -> bytes:
    """Return all that comes until the other side closes."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def assert_ok(connection: socket.socket) -> None:
    """Assert that the next reply is one, and read all of it."""
    with connection.makefile("rb", buffering=0) as lines:
        assert lines.readline().startswith(b"HTTP/1.1 200 ")
        head = dict(line.lower().split(b": ") for line in iter(lines.readline, b"\r\n"))
        left = int(head[b"content-length"])
        while left:
            left -= len(lines.read(left) or b"")


def dribble(connection: socket.socket, drop: bytes, every_s: float = 0.2) -> bytes:
    """Send a drop again and again until an answer comes or the connection is closed, and return what came."""
    until = monotonic() + PATIENCE_S
    while monotonic() < until:
        if not send(connection, drop) or select.select([connection], [], [], every_s)[0]:
            return answer(connection)
    raise AssertionError("the service still takes the drops")


def assert_is_answered(service: Service, key: str, times: int = 1) -> None:
    """Assert that health and whoever has a key are answered, each time on a connection of their own."""
    for _ in range(times):
        for path, headers in (("/trace", {"authorization": f"Bearer {key}"}), ("/livez", {}), ("/readyz", {})):
            transport = httpx.HTTPTransport(local_address=BYSTANDER, verify=False)
            with httpx.Client(base_url=service.address, timeout=PATIENCE_S, transport=transport) as client:
                reply = client.get(path, headers=headers)
            assert reply.status_code == 200, reply.text


def test_idle_connections_shut_out_neither_a_key_nor_health(
    service: Service, keys: dict[str, str], connect: Connect
) -> None:
    for number in range(3 * CONNECTIONS_MAX):
        connect(f"127.0.1.{number % 100 + 1}")

    assert_is_answered(service, keys["honest"], times=16)


def test_heads_that_have_begun_shut_out_neither_a_key_nor_health(
    service: Service, keys: dict[str, str], connect: Connect
) -> None:
    for number in range(3 * CONNECTIONS_MAX):
        connect(f"127.0.1.{number % 100 + 1}", b"GET /trace HTTP/1.1\r\nX: ")

    assert_is_answered(service, keys["honest"], times=16)


def test_who_does_not_read_what_anybody_may_ask_for_shuts_out_neither_a_key_nor_health(
    service: Service, keys: dict[str, str], connect: Connect
) -> None:
    ask_and_do_not_read(connect)

    assert_is_answered(service, keys["honest"])


def ask_and_do_not_read(connect: Connect) -> None:
    asked = request("GET", "/openapi.json", key="th_no") * 16
    for number in range(3 * CONNECTIONS_MAX):
        connect(f"127.0.1.{number % 100 + 1}", asked, receive_buffer=4096)


def test_the_uploads_of_one_tenant_shut_out_no_other(service: Service, keys: dict[str, str], connect: Connect) -> None:
    uploads = [connect(sent=upload_begun(keys["attacker"])) for _ in range(2 * CONNECTIONS_MAX)]

    assert_is_answered(service, keys["honest"])
    refused = answer(uploads[-1])
    assert refused.startswith(b"HTTP/1.1 429 ")
    assert b'"code": "connection-quota-exceeded"' in refused
    assert b"\r\nretry-after: " in refused.lower()


def test_who_does_not_read_and_the_uploads_of_two_tenants_together_shut_out_no_other(
    service: Service, keys: dict[str, str], connect: Connect
) -> None:
    ask_and_do_not_read(connect)
    for number in range(2 * CONNECTIONS_MAX):
        connect(f"127.0.2.{number % 20 + 1}", upload_begun(keys["attacker" if number % 2 else "accomplice"]))

    assert_is_answered(service, keys["honest"], times=4)


def test_a_connection_that_makes_room_is_told_so(connect: Connect) -> None:
    first = connect()
    for _ in range(ADDRESS_MAX):
        connect()

    refused = answer(first)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b'"code": "too-many-connections"' in refused
    assert b"\r\nretry-after: " in refused.lower()


def test_a_head_that_dribbles_ends(connect: Connect) -> None:
    refused = dribble(connect(sent=b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "), b"a")

    assert refused.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "request-timeout"' in refused


def test_line_ends_between_requests_do_not_keep_a_connection_open(connect: Connect) -> None:
    connection = connect(sent=request("GET", "/livez"))
    assert_ok(connection)

    assert dribble(connection, b"\r\n") == b""


@pytest.mark.parametrize("framing", ["Content-Length: 60000", "Transfer-Encoding: chunked"])
def test_a_body_that_dribbles_ends(keys: dict[str, str], connect: Connect, framing: str) -> None:
    head = request("POST", "/trace", "Content-Type: application/json", framing, key=keys["honest"])
    refused = dribble(connect(sent=head), b"a" if "Length" in framing else b"1\r\na\r\n")

    assert refused.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "request-timeout"' in refused
    assert b"\r\nconnection: close\r\n" in refused.lower()


def test_a_slow_upload_above_the_least_rate_passes(keys: dict[str, str], connect: Connect) -> None:
    body = b'{"model": "' + b"x" * 60_000 + b'"}'
    connection = connect(
        sent=request(
            "POST",
            "/trace",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            key=keys["honest"],
        )
    )
    begun = monotonic()
    for start in count(step=2000):
        if start >= len(body):
            break
        assert send(connection, body[start : start + 2000])
        sleep(0.3)

    assert monotonic() - begun > IDLE_S, "it was not slow"
    assert answer(connection).startswith(b"HTTP/1.1 422 "), "it has no source"


def test_a_connection_takes_one_request_after_another(service: Service, keys: dict[str, str], connect: Connect) -> None:
    connection = connect(BYSTANDER)
    for path in ("/trace", "/livez", "/trace"):
        send(connection, request("GET", path, key=keys["honest"]))
        assert_ok(connection)
    for number in range(3 * CONNECTIONS_MAX):
        connect(f"127.0.1.{number % 100 + 1}")
    send(connection, request("GET", "/trace", key=keys["honest"]))

    assert_ok(connection)


def test_no_other_protocol_takes_a_connection_over(connect: Connect) -> None:
    upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + "a" * 24,
    ]
    connection = connect(sent=request("GET", "/livez", *upgrade))

    assert answer(connection).startswith(b"HTTP/1.1 200 "), "and it is closed like any other"


def test_a_connection_without_a_next_request_is_closed(keys: dict[str, str], connect: Connect) -> None:
    connection = connect(sent=request("GET", "/trace", key=keys["honest"]))

    assert answer(connection).count(b"HTTP/1.1 200 ") == 1
