"""Replacements: other values for what was read out of a tensor, near it and near the numbers it may be compared with.

This is boundary value analysis (Myers, 1979): branches change at the numbers of a comparison, and beside them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tracehouse.check.instrumentation.value_reads import ValueRead

_DIMS_MAX = 4  # a number up to this, beside a size that is read, is mostly the place of a dim; a choice
_NUMBERS_MAX = 6  # so many of the numbers in the code of the function are tried, the smallest first; a choice
_EXTRAORDINARY = (-0.0, math.inf, -math.inf, math.nan)

Change = Callable[[Any], Any]


def propose_replacements(read: ValueRead) -> Iterator[Change]:
    """Yield changes of a read's value, the most telling first. Each keeps the value's type and shape.

    A size gets few: what follows from it is judged by the proof, and by calls of other sizes.
    """
    value = read.values[0]
    yield from propose_neighbours(value)
    if isinstance(value, bool):
        return
    named = sorted(read.numbers, key=abs)[:_NUMBERS_MAX]
    if read.depends_on == "sizes" and type(value) in (int, float):
        limits = [number for number in named if abs(number) > _DIMS_MAX]
        yield from (partial(_replace, number) for number in _convert(_add_neighbours(limits), type(value)))
        return
    reachable = [*dict.fromkeys(chain(named, read.comparands.numbers))]
    if type(value) in (int, float):
        numbers = chain(
            _add_neighbours(named), reachable, _find_midpoints(reachable), _add_neighbours(reachable), _EXTRAORDINARY
        )
        yield from (partial(_replace, number) for number in _convert(numbers, type(value)))
    elif read.site.kind in _LIST_KINDS:
        yield _make_alike
        yield _reverse
        yield from (partial(_put_number, places, number) for number in reachable for places in (_EVERY, _FIRST, _LAST))
        yield from (partial(_put_sequence, sequence) for sequence in (reachable, *read.comparands.sequences))


def propose_neighbours(value: Any) -> Iterator[Change]:
    """Yield changes to values near this one; a boolean changes to the other one."""
    if isinstance(value, bool):
        yield lambda truth: not truth
    else:
        yield _increase
        yield _decrease
        yield _move_far


def _replace(other: Any, value: Any) -> Any:  # noqa: ARG001
    return other


def _convert(numbers: Iterable[float], kind: type[int | float]) -> Iterator[int | float]:
    """Yield each number once as an int or a float; for int, only whole ones. Negative zero and zero are two numbers."""
    distinct = {str(number): number for number in numbers}.values()
    yield from (float(one) if kind is float else int(one)
                for one in distinct if kind is float or float(one).is_integer())  # fmt: skip


def _add_neighbours(numbers: Iterable[float]) -> Iterator[float]:
    for number in numbers:
        yield from (number, number + 1, number - 1, number + 2)  # the last of a range is one less than its end


def _find_midpoints(numbers: Sequence[float]) -> Iterator[float]:
    """Yield numbers between each two neighbours, because some branches are taken only there."""
    for low, high in pairwise(sorted({*numbers, 0.0})):
        yield (low + high) / 2
        yield float((low + high) // 2)


def _increase(value: Any) -> Any:
    return _change_elements(value, lambda one: one + 1, lambda one: one * 1.5 + 0.125)


def _decrease(value: Any) -> Any:
    return _change_elements(value, lambda one: max(one - 1, 1) if one > 1 else one + 2, lambda one: one * 0.5)


def _move_far(value: Any) -> Any:
    return _change_elements(value, lambda one: 2 * one + 1, lambda one: -one - 1)


def _change_elements(value: Any, of_int: Change, of_float: Change) -> Any:
    match value:
        case bool() | np.bool_():
            return not value
        case int():
            return of_int(value)
        case float() | complex():
            return of_float(value)
        case list():
            return [_change_elements(item, of_int, of_float) for item in value]
        case np.ndarray():
            return _change_array(value, of_float)
    return value


def _change_array(value: Any, of_float: Change) -> Any:
    if value.dtype == bool:
        return ~value
    if value.dtype.kind in "fc":
        return of_float(value).astype(value.dtype)
    return value + np.asarray(1, value.dtype)


def _change_items(order: Callable[[list[Any]], list[Any]]) -> Change:
    """Return a change of a list or an array that applies `order` to the flat list of its values and keeps its shape."""

    def change(value: Any) -> Any:
        array = np.asarray(value)
        changed = np.asarray(order(array.ravel().tolist()), array.dtype).reshape(array.shape)
        return changed if isinstance(value, np.ndarray) else changed.tolist()

    return change


def _put_number(places: slice, number: float, value: Any) -> Any:
    def put(items: list[Any]) -> list[Any]:
        kind = type(items[0]) if items else float
        count = len(items[places])
        items[places] = [kind(number)] * count if kind is not bool else items[places]
        return items

    return _change_items(put)(value)


def _put_sequence(sequence: Sequence[float], value: Any) -> Any:
    def put(items: list[Any]) -> list[Any]:
        kind = type(items[0]) if items else float
        count = min(len(items), len(sequence))
        return [*map(kind, sequence[:count]), *items[count:]]

    return _change_items(put)(value)


_EVERY, _FIRST, _LAST = slice(None), slice(1), slice(-1, None)
_LIST_KINDS = ("tolist", "numpy", "__array__")
_make_alike = _change_items(lambda items: items[:1] * len(items))
_reverse = _change_items(lambda items: items[::-1])
