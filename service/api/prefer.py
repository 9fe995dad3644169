"""`Prefer: wait=N` (RFC 7240): answer with the end of a trace request if it comes within N seconds."""

import re
from collections.abc import Sequence

WAIT_MAX_S = 60

# The closing quote is optional. If it were required, each quote after an unclosed string would be tried as a start:
# that takes quadratic time, for 58 KiB 15 s.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_WAIT = re.compile(r"\s*wait\s*=\s*([0-9]{1,9})\s*(?:;.*)?", re.ASCII | re.IGNORECASE)


def preferred_wait_s(headers: Sequence[str]) -> int | None:
    """Return the first `wait`, at most WAIT_MAX_S. What cannot be read is ignored, as the RFC demands."""
    preferences = _QUOTED.sub('""', ",".join(headers)).split(",")
    waits = [match for preference in preferences if (match := _WAIT.fullmatch(preference))]
    return min(int(waits[0][1]), WAIT_MAX_S) if waits else None
