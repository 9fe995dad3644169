"""JSON text from a client or a child: bounds on its size and nesting, and members that stand twice.

All of it works on whole texts at the speed of C: a text of some megabytes may have millions of values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

CONTAINERS = frozenset({list, dict})

# numpy counts in a tenth of the time that `bytes.count` takes, but for short texts.
_SHORT_BYTES = 4096
_PIECE_BYTES = 256 * 1024  # stays in a processor's own cache


def count(text: bytes | bytearray, mark: bytes) -> int:
    """Return how often a character stands in the text."""
    if len(text) <= _SHORT_BYTES:
        return text.count(mark)
    given = np.frombuffer(text, np.uint8)
    pieces = (given[start : start + _PIECE_BYTES] for start in range(0, len(given), _PIECE_BYTES))
    return sum(int(np.count_nonzero(piece == mark[0])) for piece in pieces)


def has_more(text: bytes | bytearray, marks: bytes, most: int) -> bool:
    """Whether more than `most` of the characters in `marks` stand in the text outside its strings.

    `[` and `{` begin lists and objects, a comma stands before each value but the first, and a colon in each member.
    They are counted before parsing, because an empty list takes 2 bytes of text and 56 bytes of memory.
    """
    if sum(count(text, bytes([each])) for each in marks) <= most:
        return False
    return int(np.count_nonzero(_places(text, marks) & ~_in_strings(text))) > most


@dataclass(frozen=True, slots=True)
class RepeatedMember:
    """A member whose name another member of the same object has, and the place of its name in the text."""

    name: str
    position: int


def find_repeated_member(text: bytes | bytearray, members: int) -> RepeatedMember | None:
    """Return the first member whose name its object has already; None if all names differ.

    The text must be JSON. `members` is the number of members that are left of it in parsed objects.
    """
    if count(text, b":") == members:  # each member has one colon, and others stand only in strings
        return None
    in_strings = _in_strings(text)
    if np.count_nonzero(_places(text, b":") & ~in_strings) == members:
        return None
    return _first_repeated(text, in_strings)


def levels(value: Any) -> Iterator[tuple[list[dict[str, Any]], list[list[Any]]]]:
    """Yield the objects and the lists of each level of nesting, the outermost level first."""
    level = [value] if type(value) in CONTAINERS else []
    while level:
        objects = [each for each in level if type(each) is dict]
        lists = [each for each in level if type(each) is list]
        yield objects, lists
        level = [*_nested_in([each.values() for each in objects]), *_nested_in(lists)]


def _nested_in(containers: list[Any]) -> Iterator[Any]:
    """Yield the lists and objects in these containers, most of which have only numbers or strings."""
    if CONTAINERS.isdisjoint(map(type, chain.from_iterable(containers))):
        return iter(())
    kinds = map(type, chain.from_iterable(containers))
    return compress(chain.from_iterable(containers), map(CONTAINERS.__contains__, kinds))


def _in_strings(text: bytes | bytearray) -> NDArray[np.bool_]:
    """Return which bytes stand in a string, its first quote included. In JSON, all backslashes stand in strings."""
    plain = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    return np.asarray(np.logical_xor.accumulate(_places(plain, b'"')))


def _places(text: bytes | bytearray, wanted: bytes) -> NDArray[np.bool_]:
    """Return which bytes of the text are one of those wanted."""
    given = np.frombuffer(text, np.uint8)
    found = np.asarray(given == wanted[0])
    for other in wanted[1:]:
        found |= given == other
    return found


def _first_repeated(text: bytes | bytearray, in_strings: NDArray[np.bool_]) -> RepeatedMember | None:
    edges = np.flatnonzero(np.diff(in_strings)) + 1  # the quotes, for the text begins with no string
    places = np.flatnonzero(_places(text, b"{}:") & ~in_strings)
    quotes_before = np.searchsorted(edges, places)
    names: list[set[str]] = []
    for place, quotes in zip(places.tolist(), quotes_before.tolist(), strict=True):
        if text[place] == ord("{"):
            names.append(set())
        elif text[place] == ord("}"):
            names.pop()
        else:
            begin, end = int(edges[quotes - 2]), int(edges[quotes - 1])
            name: str = orjson.loads(text[begin : end + 1])
            if name in names[-1]:
                return RepeatedMember(name, begin)
            names[-1].add(name)
    return None
