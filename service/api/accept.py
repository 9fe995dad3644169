"""`Accept` (RFC 9110, 12.5.1): which of the media types that a route offers a client takes, the best first."""

import re
from collections.abc import Sequence

# No honest header has more.
_RANGES_MAX = 100
_RANGE = re.compile(r"\s*(?P<type>[\w.+*-]+)(?:/(?P<subtype>[\w.+*-]+))?\s*(?P<parameters>(?:;.*)?)", re.ASCII)
_QUALITY = re.compile(r";\s*q\s*=\s*(?P<q>[0-9]{0,4}(?:\.[0-9]{0,9})?)\s*(?:;|$)", re.ASCII | re.IGNORECASE)


def accepted(accept: str, offered: Sequence[str]) -> list[str]:
    """Return the offered media types that a client takes, the one that it wants most first.

    Of those that it wants equally, those that it names come first, in its order, and then the others in theirs. A
    client that says nothing takes all. What cannot be read is left out.
    """
    ranges = [found for text in accept.split(",")[:_RANGES_MAX] if (found := _read(text)) is not None]
    if not accept.strip():
        return [*offered]
    ranked = []
    for kind in offered:
        fitting = [(rank, place, q) for place, (range_, q) in enumerate(ranges) if (rank := _fit(kind, range_))]
        if not fitting:
            continue
        rank, place, q = max(fitting, key=lambda one: (one[0], -one[1]))
        if q > 0:
            ranked.append((-q, -rank, place, kind))
    return [kind for *_, kind in sorted(ranked, key=lambda one: one[:3])]


def _read(text: str) -> tuple[str, float] | None:
    """Return a media range in small letters, and its quality; None if it cannot be read. Parameters make no
    difference: what is offered has none."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    quality = _QUALITY.search(found["parameters"])
    if quality is None:
        q = 1.0
    elif quality["q"].strip("."):
        q = min(float(quality["q"]), 1.0)
    else:
        return None
    return f"{found['type']}/{found['subtype'] or '*'}".lower(), q


def _fit(kind: str, range_: str) -> int:
    """Return how exactly a media range names the type: 3 by its name, 2 by `type/*`, 1 by `*/*`, and 0 not at all."""
    if range_ == kind:
        return 3
    if range_ == kind.partition("/")[0] + "/*":
        return 2
    return int(range_ == "*/*")
