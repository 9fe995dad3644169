"""The printed log: what the model code prints, on its way to the request's events as text, in pieces, up to a limit."""

import codecs
import time
from collections.abc import Callable

from service.sandbox.channel import Channel
from service.sandbox.log_tail import printable

_PIECE_CHARACTERS = 16 * 1024
PIECE_S = 0.3


class PrintedLog:
    """Gathers chunks of bytes and hands on pieces of text: the first at once, then one every `PIECE_S` seconds."""

    def __init__(self, hand_on: Callable[[str], object], max_bytes: int) -> None:
        self._hand_on = hand_on
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._gathered = ""
        self._handed_on = float("-inf")

    def write(self, chunk: bytes) -> None:
        head = chunk[: self._left]
        self._gathered += printable(self._decoder.decode(head))
        if len(head) < len(chunk) and self._left:
            self._gathered += f"\n[the log is cut after {self._max_bytes} bytes]\n"
        self._left -= len(head)
        self.flush_if_due()

    def flush_until_ready(self, channel: Channel, until: float) -> None:
        """Hand on what is gathered as it falls due, until that time or until the channel has a frame to read."""
        while self._gathered and time.monotonic() < until:
            if channel.is_ready(min(until, time.monotonic() + PIECE_S)):
                return
            self.flush_if_due()

    def flush_if_due(self) -> None:
        due = time.monotonic() - self._handed_on >= PIECE_S
        if self._gathered and (due or len(self._gathered) >= _PIECE_CHARACTERS):
            self.flush()

    def flush(self) -> None:
        if self._gathered:
            piece, self._gathered = self._gathered, ""
            self._handed_on = time.monotonic()
            self._hand_on(piece)
