"""The printed log: it passes what the model code prints to the request's events, as pieces of text, up to a limit."""

import codecs
import time
from collections.abc import Callable

from service.sandbox.channel import Channel
from tracehouse.printable_text import printable

# Held at most. Each piece is a transaction, for which whoever else writes waits: a model prints a megabyte at once.
_PIECE_CHARACTERS = 256 * 1024
PIECE_S = 0.3


class PrintedLog:
    """Collects chunks of bytes and emits pieces of text: the first at once, then one every `PIECE_S` seconds."""

    def __init__(self, emit: Callable[[str], object], max_bytes: int) -> None:
        self._emit = emit
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._is_cut = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._return = ""  # a carriage return at the end of the last chunk: with the next one, it may end a line
        self._text = ""
        self._emitted_at = float("-inf")

    def write(self, chunk: bytes) -> None:
        """Add a chunk, and emit the text if it is due. What is over the limit is left out, with a line that says so."""
        if self._is_cut:
            return
        head = chunk[: self._left]
        self._left -= len(head)
        self._is_cut = len(head) < len(chunk)
        self._add(head, is_last=self._is_cut)
        if self._is_cut:
            self._text += f"\n[the log is cut after {self._max_bytes} bytes]\n"
        self.flush_if_due()

    def flush_until_ready(self, channel: Channel, until: float) -> None:
        """Emit the text as it falls due, until that time or until the channel has a frame to read."""
        while self._text and time.monotonic() < until:
            if channel.is_ready(min(until, time.monotonic() + PIECE_S)):
                return
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Emit the text if the last piece is `PIECE_S` old, or if there is enough of it."""
        due = time.monotonic() - self._emitted_at >= PIECE_S
        if self._text and (due or len(self._text) >= _PIECE_CHARACTERS):
            self.flush()

    def end(self) -> None:
        """Emit all text, also where the last character is not whole."""
        self._add(b"", is_last=True)
        self.flush()

    def flush(self) -> None:
        """Emit the text, if there is any."""
        if self._text:
            piece, self._text = self._text, ""
            self._emitted_at = time.monotonic()
            self._emit(piece)

    def _add(self, chunk: bytes, *, is_last: bool) -> None:
        text = self._return + self._decoder.decode(chunk, is_last)
        self._return = "\r" if text.endswith("\r") and not is_last else ""
        self._text += printable(text.removesuffix(self._return))
