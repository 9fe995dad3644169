"""Printable text: text of somebody else that neither acts on a terminal nor reads in another order than it has."""

import re

# They turn the direction of text, for a regular expression: with them, a line may read as another.
TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_BREAKING = re.compile("[\t\n\u2028\u2029\ud800-\udfff]")
_ACTING = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}]")


def printable(text: str) -> str:
    """Escape control characters, because text is shown on terminals, and PostgreSQL stores no null character."""
    text = text.replace("\r\n", "\n")
    # A megabyte that is nothing else takes 40 ms so, and 300 with a call of `_escape` for each.
    return text.translate(_ESCAPES) if _ACTING.search(text) else text


def printable_line(text: str) -> str:
    """Escape line breaks, tabs and what is no text in UTF-8, too: it stays one line, in which all of that shows."""
    return _BREAKING.sub(_escape, _ACTING.sub(_escape, text))


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


_ESCAPES = {ord(char): ascii(char)[1:-1] for char in map(chr, range(0x2100)) if _ACTING.match(char)}
