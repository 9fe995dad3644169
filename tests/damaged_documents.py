"""Documents of a server that is no Tracehouse service: each member once with a value of another type."""

import copy
from collections.abc import Iterator
from typing import Any

WRONG: list[Any] = [None, True, 5, -0.5, "text", [], [5], ["text"], {}, {"text": 5}, [{}]]


def damaged(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the document with one member or entry replaced, once for each and each wrong value, and what that is."""
    for place in document if isinstance(document, dict) else range(len(document) if isinstance(document, list) else 0):
        for wrong in WRONG:
            yield f"[{place!r}] = {wrong!r}", put(document, place, wrong)
        for what, inner in damaged(document[place]):
            yield f"[{place!r}]{what}", put(document, place, inner)


def put(document: Any, place: Any, value: Any) -> Any:
    """Return a copy of the document with another value at a place."""
    changed = copy.copy(document)
    changed[place] = value
    return changed
