"""JSON with long lists of numbers: the lists become arrays, and only what stands around them becomes objects.

A picture of 3 x 224 x 224 has 150,000 numbers, each of which is an object of Python for `orjson`. Whatever is not as
usual clients write it is left to `service.api.http.body.parse_json`, which alone says what is wrong: what is read here
is what would be read there.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, TypeVar

import numpy as np
import simdjson
from numpy.typing import NDArray
from pydantic import JsonValue

from service.api.http.body import CONTAINERS_MAX, SMALL_BYTES, VALUES_MAX, parse_json
from tracehouse.errors import ServiceError
from tracehouse.tensors.numbers import Numbers

T = TypeVar("T")

# A shorter list is read with what stands around it.
_LONG_BYTES = 16 * 1024
# What stands around the lists has at most so many strings, and a list stands at most so deep in it. Chosen.
_QUOTES_MAX = 2000
_DEPTH_MAX = 8
_DIMS_MAX = 32
# The longest number that Python writes is -2.2250738585072014e-308, which has 19 bytes before its exponent. simdjson
# takes microseconds for one with 19 digits and a point before an exponent, so a text of such numbers would take a
# hundred times as long as another one. Longer numbers without an exponent take twice as long as `orjson` takes.
_NUMBER_MAX_BYTES = 24
_BEFORE_EXPONENT_MAX_BYTES = 19
_SEPARATOR_BYTES = 2
# Of all numbers, that many may have brackets or spaces beside them that have to be looked at.
_LOOKED_AT_SHARE = 16
_SPACE = b" \t\n\r"
# Stands for a list, with its number: a whole number is written in one way only.
_PLACE = b"90071992547409%04d"
_PLACE_DIGITS = _PLACE[:-4]
# `args` has the arguments, of which each may be an array.
_ARGUMENTS, _ARGUMENTS_MAX = "args", 64


class NotUsual(Exception):
    """This is read as other JSON is."""


def read_with_numbers(text: bytes, read: Callable[[JsonValue], T]) -> T:
    """Read a body of which long lists may be `Numbers`: where it cannot be read so, it is read as any other.

    Raises MalformedJson, and what `read` raises.
    """
    if len(text) > SMALL_BYTES:
        try:
            return read(parse_numbers(text))
        except (NotUsual, ServiceError):
            pass
    return read(parse_json(text))


def parse_numbers(text: bytes) -> Any:
    """Parse JSON whose long lists of numbers become `Numbers`. Raises NotUsual and MalformedJson."""
    lists, pieces, start = [], [], 0
    for begin, end in _long_lists(text):
        lists.append(_read_list(text, begin, end))
        pieces += [text[start:begin], _PLACE % (len(lists) - 1)]
        start = end
    around = b"".join([*pieces, text[start:]])
    if not lists or len(around) > SMALL_BYTES or around.count(_PLACE_DIGITS) != len(lists):
        raise NotUsual
    values = sum(len(each.flat) for each in lists)
    containers = sum(_count_lists(each.shape) for each in lists)
    if (
        values + around.count(b",") > VALUES_MAX
        or containers + around.count(b"[") + around.count(b"{") > CONTAINERS_MAX
    ):
        raise NotUsual
    found = _Places(lists)
    value = found.fill(parse_json(around), _DEPTH_MAX)
    if found.left:
        raise NotUsual
    return value


class _Places:
    """Puts lists where their numbers stand."""

    def __init__(self, lists: list[Numbers]) -> None:
        self.left = {int(_PLACE % number): each for number, each in enumerate(lists)}

    def fill(self, value: JsonValue, depth: int) -> Any:
        if depth == 0:
            return value
        if isinstance(value, dict):
            return {name: self._fill_member(name, each, depth) for name, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each, depth - 1) for each in value]
        if type(value) is int and value in self.left:
            return self.left.pop(value)
        return value

    def _fill_member(self, name: str, value: JsonValue, depth: int) -> Any:
        filled = self.fill(value, depth - 1)
        if name != _ARGUMENTS or not isinstance(filled, Numbers):
            return filled
        return filled.items() if len(filled.shape) > 1 and filled.shape[0] <= _ARGUMENTS_MAX else filled


def _long_lists(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the long value of a member begins and ends that is a list without strings or objects, if it is JSON.

    Raises NotUsual.
    """
    if b"\\" in text:
        raise NotUsual
    before, quote, quotes = 0, text.find(b'"'), 0
    while quote >= 0:
        if quotes % 2 == 0 and quote - before >= _LONG_BYTES:
            yield _list_between(text, before, quote)
        before, quote, quotes = quote + 1, text.find(b'"', quote + 1), quotes + 1
        if quotes > _QUOTES_MAX:
            raise NotUsual
    if quotes % 2 == 0 and len(text) - before >= _LONG_BYTES:
        yield _list_between(text, before, len(text))


def _list_between(text: bytes, before: int, end: int) -> tuple[int, int]:
    """Return where the list lies that follows a member's name."""
    begin = text.find(b"[", before, end)
    if begin < 0 or text[before:begin].strip(_SPACE) != b":":
        raise NotUsual
    for mark in (b"}", b"{"):
        place = text.find(mark, begin, end)
        end = place if place >= 0 else end
    last = text.rfind(b"]", begin, end)
    if text[last + 1 : end].strip(_SPACE) not in (b"", b","):
        raise NotUsual
    return begin, last + 1


def _read_list(text: bytes, begin: int, end: int) -> Numbers:
    """Raises NotUsual, unless this part of the text is a list of numbers alone that nests as an array does."""
    part = memoryview(text)[begin:end]
    given = np.frombuffer(part, np.uint8)
    commas = np.flatnonzero(given == ord(","))
    if len(commas) >= VALUES_MAX:
        raise NotUsual
    _refuse_long_numbers(part, commas)
    _refuse_long_exponentials(given, commas)
    flat = _parse_flat(part)
    if len(flat) != len(commas) + 1:  # a list in it is empty
        raise NotUsual
    if text.find(b"[", begin + 1, end) < 0:
        return Numbers(flat, (len(flat),))
    brackets = np.flatnonzero((given == ord("[")) | (given == ord("]")))
    if len(brackets) > CONTAINERS_MAX:  # two are one list
        raise NotUsual
    return Numbers(flat, _shape_of(given[brackets] == ord("["), np.searchsorted(commas, brackets), len(flat)))


def _refuse_long_numbers(text: memoryview, commas: NDArray[np.intp]) -> None:
    edges = np.concatenate(([-1], commas, [len(text)]))
    long = np.flatnonzero(np.diff(edges) > _NUMBER_MAX_BYTES + _SEPARATOR_BYTES)
    _look_at(text, edges[long] + 1, edges[long + 1], _NUMBER_MAX_BYTES, len(commas))


def _refuse_long_exponentials(given: NDArray[np.uint8], commas: NDArray[np.intp]) -> None:
    """Refuse numbers that have many digits before an exponent."""
    exponents = np.flatnonzero((given | 0x20) == ord("e"))
    if not len(exponents):
        return
    begins = np.concatenate(([-1], commas))[np.searchsorted(commas, exponents)] + 1
    begins += given[begins] == ord(" ")
    long = np.flatnonzero(exponents - begins > _BEFORE_EXPONENT_MAX_BYTES)
    _look_at(given.data, begins[long], exponents[long], _BEFORE_EXPONENT_MAX_BYTES, len(commas))


def _look_at(text: memoryview, begins: NDArray[np.intp], ends: NDArray[np.intp], most_bytes: int, commas: int) -> None:
    """Raises NotUsual if one of these parts has more bytes without brackets and spaces, or if they are many."""
    if len(begins) > commas // _LOOKED_AT_SHARE + 2:
        raise NotUsual
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        if len(bytes(text[begin:end]).strip(b"[]" + _SPACE)) > most_bytes:
            raise NotUsual


def _parse_flat(text: memoryview) -> NDArray[np.int64 | np.float64]:
    """Return the numbers of a list, however they nest."""
    try:
        parsed = simdjson.Parser().parse(text)
        try:
            return np.frombuffer(parsed.as_buffer(of_type="i"), np.int64)  # type: ignore[union-attr] # a list
        except TypeError:  # one of them is no whole number, or a large one
            return np.frombuffer(parsed.as_buffer(of_type="d"), np.float64)  # type: ignore[union-attr]
    except (ValueError, TypeError, RuntimeError) as error:
        raise NotUsual from error


def _count_lists(shape: tuple[int, ...]) -> int:
    return sum(prod(shape[:depth]) for depth in range(len(shape)))


def _shape_of(opens: NDArray[np.bool_], values_before: NDArray[np.intp], values: int) -> tuple[int, ...]:
    """Return the shape of lists that nest. `opens` says for each bracket whether it begins a list, `values_before` how
    many commas stand before it. None of the lists is empty, and the text is JSON. Raises NotUsual if they are ragged.

    At each level, lists of equal length follow one another without a gap.
    """
    depths = np.cumsum(np.where(opens, 1, -1)) + ~opens
    shape: list[int] = []
    lists_above = 1
    for depth in range(1, int(depths.max()) + 1):
        is_here = depths == depth
        begins, ends = values_before[is_here & opens], values_before[is_here & ~opens] + 1
        lists = len(begins)
        if values % lists or lists % lists_above or len(shape) == _DIMS_MAX:
            raise NotUsual
        at = np.arange(lists + 1) * (values // lists)
        if not (np.array_equal(begins, at[:-1]) and np.array_equal(ends, at[1:])):
            raise NotUsual
        shape.append(lists // lists_above)
        lists_above = lists
    return (*shape[1:], values // lists_above)
