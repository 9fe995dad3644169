"""JSON text from a client or a child: bounds on its size and nesting, checked before anything else reads it."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

# The closing quote is optional. If it were required, the expression would try every quote after an unclosed string as a
# start. That takes quadratic time: hours for a megabyte of quotes.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_CONTAINERS = frozenset({list, dict})


def has_more_containers(text: bytes | bytearray, most: int) -> bool:
    """Whether the text has more than `most` lists and objects.

    They are counted before parsing, because an empty list takes 2 bytes of text and 56 bytes of memory.
    """
    return _openings(text) > most and _openings(_STRING.sub(b"", text)) > most


def levels(value: Any) -> Iterator[tuple[list[dict[str, Any]], list[list[Any]]]]:
    """Yield the objects and the lists of each level of nesting, the outermost level first.

    Members of an object count as a level even if none of them nests. Items of a list do only if one of them nests.
    """
    level = [value]
    while level:
        objects = [each for each in level if isinstance(each, dict)]
        lists = [each for each in level if isinstance(each, list)]
        yield objects, lists
        # Most lists hold only numbers or strings; isdisjoint finds that out at the speed of C.
        nesting = (each for each in lists if not _CONTAINERS.isdisjoint(map(type, each)))
        level = [*chain.from_iterable(each.values() for each in objects), *chain.from_iterable(nesting)]


def _openings(text: bytes | bytearray) -> int:
    return text.count(b"[") + text.count(b"{")
