"""Pace: how long an answer may take once it comes. What answers may be no service, and send a byte now and then.

An answer may take as long as the model takes to begin, if a model is asked. Streams of events are as slow as what they
tell of.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic

import httpx

# Chosen: a service sends at once what it has, and a slow line brings ten times as much.
GRACE_S = 60.0
BYTES_PER_S_MIN = 1_000
# Of what is there already. A service gives up on its database within a minute.
SILENCE_MAX_S = 300.0


class Pace:
    """Counts what of an answer has come, and how long it was waited for. Raises httpx.ReadTimeout if it is too slow."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._received = 0

    def count(self, byte_size: int, waited_s: float) -> None:
        self._received += byte_size
        self._waited_s += waited_s
        if self._waited_s > GRACE_S and self._received < self._waited_s * BYTES_PER_S_MIN:
            raise httpx.ReadTimeout(
                f"its answer comes too slowly: {self._received:,} bytes in {self._waited_s:,.0f} s, "
                f"and a service sends {BYTES_PER_S_MIN:,} in a second"
            )


class _PacedStream(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        pace, since = Pace(), monotonic()
        for piece in self._stream:
            pace.count(len(piece), monotonic() - since)
            yield piece
            since = monotonic()  # what is done with a piece is not waited for

    def close(self) -> None:
        self._stream.close()


class _PacedAsyncStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace, since = Pace(), monotonic()
        async for piece in self._stream:
            pace.count(len(piece), monotonic() - since)
            yield piece
            since = monotonic()

    async def aclose(self) -> None:
        await self._stream.aclose()


def limit_silence(request: httpx.Request) -> None:
    """Limit how long nothing may come of what is there already."""
    if request.method == "GET":
        _limit_silence(request, SILENCE_MAX_S)


def limit_pace(response: httpx.Response) -> None:
    """Have an answer that has begun end, or come at a reasonable pace."""
    if not _is_endless(response.request) and isinstance(response.stream, httpx.SyncByteStream):
        _limit_silence(response.request, GRACE_S)
        response.stream = _PacedStream(response.stream)


async def limit_silence_async(request: httpx.Request) -> None:
    """Limit how long nothing may come of what is there already."""
    limit_silence(request)


async def limit_pace_async(response: httpx.Response) -> None:
    """Have an answer that has begun end, or come at a reasonable pace."""
    if not _is_endless(response.request) and isinstance(response.stream, httpx.AsyncByteStream):
        _limit_silence(response.request, GRACE_S)
        response.stream = _PacedAsyncStream(response.stream)


# For a client of httpx, as its `event_hooks`.
HOOKS: dict[str, list[Callable[..., object]]] = {"request": [limit_silence], "response": [limit_pace]}
HOOKS_ASYNC: dict[str, list[Callable[..., object]]] = {
    "request": [limit_silence_async],
    "response": [limit_pace_async],
}


def _is_endless(request: httpx.Request) -> bool:
    """Whether the answer is a stream of events, which lasts as long as a trace."""
    return request.url.path.endswith("/events")


def _limit_silence(request: httpx.Request, limit_s: float) -> None:
    """Limit how long the next bytes are waited for, unless a shorter limit is set. The transport reads it each time."""
    timeout = request.extensions.get("timeout", {})
    if not _is_endless(request) and "read" in timeout:
        timeout["read"] = limit_s if timeout["read"] is None else min(timeout["read"], limit_s)
