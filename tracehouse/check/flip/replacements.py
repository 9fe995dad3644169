"""Other values in the place of what is read out of a tensor: those beside it, and what it may be compared with."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tracehouse.check.instrumentation.value_reads import ValueRead

_NUMBERS_MAX = 6  # of those that the function itself names
_NOT_ORDINARY = (-0.0, math.inf, -math.inf, math.nan)

Change = Callable[[Any], Any]


def propose_replacements(read: ValueRead) -> Iterator[Change]:
    """The most telling first."""
    value = read.values[0]
    yield from propose_neighbours(value)
    if isinstance(value, bool):
        return
    named = sorted(read.numbers, key=abs)[:_NUMBERS_MAX]
    at_hand = [*dict.fromkeys(chain(named, read.comparands.numbers))]
    if type(value) in (int, float):
        numbers = chain(_and_near(named), at_hand, _between(at_hand), _and_near(at_hand), _NOT_ORDINARY)
        yield from (partial(_instead, other) for other in _of_type(type(value), numbers))
    elif read.site.kind in _OF_MANY:
        yield _alike
        yield _reversed
        yield from (partial(_with, places, number) for number in at_hand for places in (_EVERY, _FIRST, _LAST))
        yield from (partial(_beginning_with, sequence) for sequence in (at_hand, *read.comparands.sequences))


def propose_neighbours(value: Any) -> Iterator[Change]:
    """What makes another value of one like this."""
    if isinstance(value, bool):
        yield lambda was: not was
    else:
        yield _more
        yield _less
        yield _far


def _instead(other: Any, value: Any) -> Any:  # noqa: ARG001
    return other


def _of_type(kind: type[int | float], numbers: Iterable[float]) -> Iterator[int | float]:
    """Each once; a negative zero is told from zero."""
    told = {str(number): number for number in numbers}.values()
    yield from (float(one) if kind is float else int(one) for one in told if kind is float or float(one).is_integer())


def _and_near(numbers: Iterable[float]) -> Iterator[float]:
    for number in numbers:
        yield from (number, number + 1, number - 1, number + 2)  # the last of a range is one less than its end


def _between(numbers: Sequence[float]) -> Iterator[float]:
    """Where a value must lie between two."""
    for low, high in pairwise(sorted({*numbers, 0.0})):
        yield (low + high) / 2
        yield float((low + high) // 2)


def _more(value: Any) -> Any:
    return _elementwise(value, lambda one: one + 1, lambda one: one * 1.5 + 0.125)


def _less(value: Any) -> Any:
    return _elementwise(value, lambda one: max(one - 1, 1) if one > 1 else one + 2, lambda one: one * 0.5)


def _far(value: Any) -> Any:
    return _elementwise(value, lambda one: 2 * one + 1, lambda one: -one - 1)


def _elementwise(value: Any, of_int: Change, of_float: Change) -> Any:
    match value:
        case bool() | np.bool_():
            return not value
        case int():
            return of_int(value)
        case float() | complex():
            return of_float(value)
        case list():
            return [_elementwise(item, of_int, of_float) for item in value]
        case np.ndarray():
            return _of_array(value, of_float)
    return value


def _of_array(value: Any, of_float: Change) -> Any:
    if value.dtype == bool:
        return ~value
    if value.dtype.kind in "fc":
        return of_float(value).astype(value.dtype)
    return value + np.asarray(1, value.dtype)


def _reordered(order: Callable[[list[Any]], list[Any]]) -> Change:
    """Of a list or an array, the same values in other places."""

    def change(value: Any) -> Any:
        array = np.asarray(value)
        made = np.asarray(order(array.ravel().tolist()), array.dtype).reshape(array.shape)
        return made if isinstance(value, np.ndarray) else made.tolist()

    return change


def _with(places: slice, number: float, value: Any) -> Any:
    def put(items: list[Any]) -> list[Any]:
        kind = type(items[0]) if items else float
        count = len(items[places])
        items[places] = [kind(number)] * count if kind is not bool else items[places]
        return items

    return _reordered(put)(value)


def _beginning_with(sequence: Sequence[float], value: Any) -> Any:
    def put(items: list[Any]) -> list[Any]:
        kind = type(items[0]) if items else float
        count = min(len(items), len(sequence))
        return [*map(kind, sequence[:count]), *items[count:]]

    return _reordered(put)(value)


_EVERY, _FIRST, _LAST = slice(None), slice(1), slice(-1, None)
_OF_MANY = ("tolist", "numpy", "__array__")
_alike = _reordered(lambda items: items[:1] * len(items))
_reversed = _reordered(lambda items: items[::-1])
