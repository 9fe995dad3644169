"""Callers: many connections that each send one request after the other, over plain sockets on one uvloop.

A client of a few microseconds a request: what is measured is the server.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import uvloop


@dataclass(frozen=True)
class Load:
    """What so many callers saw: the seconds of each request, and how long all of it took."""

    seconds: list[float]
    wall_s: float

    @property
    def per_s(self) -> float:
        return len(self.seconds) / self.wall_s

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Caller(asyncio.Protocol):
    """One connection. It checks each reply, and counts those that came in time."""

    def __init__(self, request: bytes, until: float, check: Callable[[bytes], object], seconds: list[float]) -> None:
        self._request = request
        self._until = until
        self._check = check
        self._seconds = seconds
        self._received = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of asyncio's
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = content_length(self._received[:head])
        if len(self._received) < head + 4 + length:
            return
        now = time.perf_counter()
        self._seconds.append(now - self._sent_at)
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._end(RuntimeError(self._received[:2000].decode(errors="replace")))
            return
        self._check(bytes(self._received[head + 4 :]))
        self._received.clear()
        if now < self._until:
            self._send()
        else:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def _end(self, error: Exception | None) -> None:
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
        self._transport.close()


def call(
    address: tuple[str, int], request: bytes, callers: int, seconds: float, check: Callable[[bytes], object]
) -> Load:
    """Return what so many callers saw in so many seconds. `check` gets each reply's body, and raises if it is wrong."""
    return uvloop.run(_call(address, request, callers, seconds, check))


async def _call(
    address: tuple[str, int], request: bytes, callers: int, seconds: float, check: Callable[[bytes], object]
) -> Load:
    taken: list[float] = []
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    made = [
        await loop.create_connection(lambda: Caller(request, began + seconds, check, taken), *address)
        for _ in range(callers)
    ]
    await asyncio.gather(*(caller.ended for _, caller in made))
    return Load(taken, time.perf_counter() - began)


def content_length(head: bytes | bytearray) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError(f"a reply has no length: {bytes(head[:200])!r}")


def post(path: str, body: bytes, **headers: str) -> bytes:
    """Return a whole request."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
