"""A log tail: the end of what a child printed, read from its pipe so that the child never waits."""

import asyncio
import os
from collections.abc import Callable

from tracehouse.printable_text import printable

_CHUNK_BYTES = 64 * 1024
_CHUNKS_PER_DRAIN = 16  # so that a child that never stops printing cannot keep its parent from the clock


class LogTail:
    """Keeps the last `max_bytes`; `cut_bytes` counts those before. `on_chunk` gets every chunk."""

    def __init__(self, descriptor: int, max_bytes: int, on_chunk: Callable[[bytes], None] | None = None) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._on_chunk = on_chunk
        self._kept = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.cut_bytes = 0
        self.ended = False

    def fileno(self) -> int:
        return self._descriptor

    def text(self) -> str:
        """Return the bytes that are kept as `printable` text."""
        text = printable(self._kept.decode(errors="backslashreplace"))
        return f"[{self.cut_bytes} bytes cut]\n{text}" if self.cut_bytes else text

    def drain(self) -> None:
        """Read what is in the pipe now, up to a mebibyte."""
        for _ in range(_CHUNKS_PER_DRAIN):
            try:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.ended = True
                self.detach()
                return
            self._keep(chunk)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let `loop` drain it from now on."""
        self._loop = loop
        loop.add_reader(self._descriptor, self.drain)

    def detach(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop = None

    def close(self) -> None:
        """Close the pipe; the text remains readable."""
        self.detach()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.ended = True

    def _keep(self, chunk: bytes) -> None:
        self._kept += chunk
        excess = max(0, len(self._kept) - self._max_bytes)
        del self._kept[:excess]
        self.cut_bytes += excess
        if self._on_chunk is not None:
            self._on_chunk(chunk)
