"""A server that sends a byte now and then is not waited for; a slow answer of a service is."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import httpx
import pytest

from tests.conftest import PATIENCE_S
from tracehouse import AsyncClient, Client
from tracehouse.client import errors, pace
from tracehouse.client.connection import Address, Connection
from tracehouse.client.flow import Ask, Flow

LIST = b'{"models": [], "next_cursor": null}'
SLOW = "its answer comes too slowly: .* bytes in"


class Drip(httpx.SyncByteStream, httpx.AsyncByteStream):
    """An answer that comes a byte at a time, and is whole in the end."""

    def __iter__(self) -> Iterator[bytes]:
        for byte in LIST:
            time.sleep(0.001)
            yield bytes([byte])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for byte in LIST:
            await asyncio.sleep(0.001)
            yield bytes([byte])


TRANSPORT = httpx.MockTransport(lambda _: httpx.Response(200, stream=Drip()))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no line be fast enough, so that no test waits."""
    monkeypatch.setattr(pace, "GRACE_S", 0.01)
    monkeypatch.setattr(pace, "BYTES_PER_S_MIN", 10**9)


async def list_in_a_loop() -> list[object]:
    async with AsyncClient("http://service", transport=TRANSPORT) as client:
        return [*await client.models.list()]


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_drips_is_given_up() -> None:
    with pytest.raises(errors.ServiceUnreachable, match=SLOW):
        Client("http://service", transport=TRANSPORT).models.list()
    with pytest.raises(errors.ServiceUnreachable, match=SLOW):
        asyncio.run(list_in_a_loop())


def test_an_answer_that_is_slow_for_a_while_is_read() -> None:
    assert Client("http://service", transport=TRANSPORT).models.list() == []
    assert asyncio.run(list_in_a_loop()) == []


def test_what_comes_at_a_reasonable_rate_may_last() -> None:
    """A download of hours, and what is done with each piece takes no part in it."""
    counted = pace.Pace()
    for _ in range(3600):
        counted.count(byte_size=2_000, waited_s=1)

    with pytest.raises(httpx.ReadTimeout, match="7,200,000 bytes in 7,201 s"):
        counted.count(byte_size=0, waited_s=3601)


@pytest.mark.usefixtures("impatient")
def test_events_come_as_slowly_as_what_they_tell_of_and_other_lines_do_not() -> None:
    connection = Connection(Address("http://service", None), TRANSPORT)
    lines: list[str] = []

    def follow(path: str) -> Flow[None]:
        yield Ask("GET", path, on_line=lines.append)

    connection.run(follow("/trace/0/events"))
    assert lines == [LIST.decode()]
    with pytest.raises(errors.ServiceUnreachable, match=SLOW):
        connection.run(follow("/trace/0/log"))


@pytest.mark.parametrize("is_begun", [False, True], ids=["nothing", "half"])
def test_a_server_that_falls_silent_is_not_waited_for(is_begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "GRACE_S", 0.1)
    monkeypatch.setattr(pace, "SILENCE_MAX_S", 0.1 if not is_begun else 600.0)
    is_over = Event()

    class Silent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if is_begun:
                self.send_response(200)
                self.send_header("content-length", str(len(LIST)))
                self.end_headers()
                self.wfile.write(LIST[:5])
            is_over.wait(PATIENCE_S)

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        Thread(target=server.serve_forever).start()
        try:
            with pytest.raises(errors.ServiceUnreachable, match="timed out"):
                Client(f"http://127.0.0.1:{server.server_port}").models.list()
        finally:
            is_over.set()
            server.shutdown()
