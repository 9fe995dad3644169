"""Printable text: text of somebody else that neither acts on a terminal nor reads in another order than it has."""

import re

# They turn the direction of text, for a regular expression: with them, a line may read as another.
TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ACTING = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}]")


def printable(text: str) -> str:
    """Escape control characters, because text is shown on terminals, and PostgreSQL stores no null character."""
    return _ACTING.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))
