"""JSON that a stranger wrote: its text before it is parsed, and how it nests before anything else looks at it."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

# The closing quote may be missing: where it had to be there, each quote of a text without an end would be tried as its
# start, and a megabyte of them would take hours.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_CONTAINERS = frozenset({list, dict})


def has_more_containers(text: bytes | bytearray, most: int) -> bool:
    """Lists and objects, counted before they are made: an empty list takes two bytes of text, and 56 of memory."""
    return _openings(text) > most and _openings(_STRING.sub(b"", text)) > most


def levels(value: Any) -> Iterator[tuple[list[dict[str, Any]], list[list[Any]]]]:
    """The objects and the lists on each level, the outermost first.

    An object's members are a level even if none of them nests; a list of nothing but plain values is not gone through.
    """
    level = [value]
    while level:
        objects = [each for each in level if isinstance(each, dict)]
        lists = [each for each in level if isinstance(each, list)]
        yield objects, lists
        # Most lists are numbers or names, which is found out at the speed of C.
        nesting = (each for each in lists if not _CONTAINERS.isdisjoint(map(type, each)))
        level = [*chain.from_iterable(each.values() for each in objects), *chain.from_iterable(nesting)]


def _openings(text: bytes | bytearray) -> int:
    return text.count(b"[") + text.count(b"{")
