"""A repeated head: what a client sends before each of its requests, in which only the length of the body changes.

Such a head says what it said before: it need not be parsed, nor be read, again.
"""

import re
from dataclasses import dataclass

from service.api.http.fast_exchange import PlainHead

# Of a head that is remembered for its connection. Those of usual clients have some hundred bytes.
_HEAD_MAX_BYTES = 4096
# Of the number that a Content-Length is: more than any body has that is answered without the app.
LENGTH_DIGITS_MAX = 9
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,%d})\r\n" % LENGTH_DIGITS_MAX, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RepeatedHead:
    """The bytes before and after the number of the body's bytes, and what the head asks."""

    before: bytes
    after: bytes
    head: PlainHead

    @classmethod
    def of(cls, sent: bytes, head: PlainHead) -> "RepeatedHead | None":
        """Return the head with which `sent` begins; None if it is not there whole, or too long to be remembered."""
        end = sent.find(_END, 0, _HEAD_MAX_BYTES)
        length = _LENGTH.search(sent, 0, end + len(_END)) if end >= 0 else None
        if length is None:
            return None
        return cls(sent[: length.start(1)], sent[length.end(1) : end + len(_END)], head)

    def body_of(self, sent: bytes) -> bytes | None:
        """Return the body of a whole request with this head, and nothing behind it; None for anything else."""
        body_at, body_bytes = self._measure(sent)
        return sent[body_at:] if body_at and len(sent) == body_at + body_bytes else None

    def is_alone(self, sent: bytes) -> bool:
        """Whether it is this head, and a body is to follow."""
        body_at, body_bytes = self._measure(sent)
        return len(sent) == body_at > 0 and body_bytes > 0

    def _measure(self, sent: bytes) -> tuple[int, int]:
        """Return where the body begins, and the bytes that it has; 0 and 0 for another head, or too large a body."""
        start = len(self.before)
        end = sent.find(b"\r", start, start + LENGTH_DIGITS_MAX + 1) if sent.startswith(self.before) else -1
        digits = sent[start:end]
        if end < 0 or not digits.isdigit() or not sent.startswith(self.after, end):
            return 0, 0
        body_bytes = int(digits)
        return (end + len(self.after), body_bytes) if self.head.takes(body_bytes) else (0, 0)
