"""An address of the PostgreSQL of the tests that can be cut or fall silent, and be mended."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from sqlalchemy import make_url


class DatabaseRelay:
    """Passes on what comes to a port of this machine, on a thread of its own."""

    def __init__(self, url: str) -> None:
        self._at = make_url(url)
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self._passes_on = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._port = 0
        self.mend()

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Iterator[Self]:
        relay = cls(url)
        try:
            yield relay
        finally:
            relay._loop.call_soon_threadsafe(relay._passes_on.set)
            relay.cut()
            relay._loop.call_soon_threadsafe(relay._loop.stop)
            relay._thread.join()
            relay._loop.close()

    @property
    def url(self) -> str:
        """The database's URL at this address."""
        here = self._at.difference_update_query(["host"]).set(host="127.0.0.1", port=self._port)
        return here.render_as_string(hide_password=False)

    def cut(self) -> None:
        """Close the port and all connections."""
        self._wait_for(self._cut())

    def mend(self) -> None:
        """Open what was cut."""
        self._server: asyncio.Server = self._wait_for(asyncio.start_server(self._relay, "127.0.0.1", self._port))
        self._port = self._server.sockets[0].getsockname()[1]
        self.go_on()

    def fall_silent(self) -> None:
        """Keep all connections, and pass nothing on."""
        self._loop.call_soon_threadsafe(self._passes_on.clear)

    def go_on(self) -> None:
        self._loop.call_soon_threadsafe(self._passes_on.set)

    def _wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _cut(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._at.query.get("host") or self._at.host, self._at.port or 5432
        assert isinstance(host, str)
        if host.startswith("/"):
            there, to_there = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            there, to_there = await asyncio.open_connection(host, port)
        self._writers += (writer, to_there)
        await asyncio.gather(self._copy(reader, to_there), self._copy(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._passes_on.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
