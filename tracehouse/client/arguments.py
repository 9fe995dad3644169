"""Arguments that are lists, dicts or numbers, as a caller gives them.

Python takes a text apart into letters, a dict into its keys and a tensor into rows, and all of that could be sent. So
could nan, as null, which counts as not given.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

from tracehouse.client.errors import NotSendable
from tracehouse.client.values import is_tensor

_VALUE_MAX_CHARACTERS = 80


def read_list(argument: str, given: Any, remedy: str, kinds: tuple[type, ...] = ()) -> list[Any]:
    """Return the entries of a list, each of which is of one of the kinds, if any are named. None is an empty list.

    One thing of these kinds is a list of itself. `remedy` says what to give. Raises NotSendable.
    """
    if given is None:
        return []
    if kinds and isinstance(given, kinds):
        given = [given]
    if isinstance(given, str | bytes | Mapping) or is_tensor(given) or not isinstance(given, Iterable):
        raise _refusal(argument, given, remedy)
    entries = [*given]
    for place, entry in enumerate(entries):
        if kinds and (not isinstance(entry, kinds) or entry == ""):
            raise _refusal(f"{argument}[{place}]", entry, remedy)
    return entries


def read_dict(argument: str, given: Any, remedy: str) -> dict[Any, Any]:
    """Return a dict. None is an empty one. Raises NotSendable."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _refusal(argument, given, remedy)
    return dict(given)


def read_number(argument: str, given: Any, remedy: str) -> float | None:
    """Return a number, or None where none is given. Raises NotSendable, also for nan and what is infinite."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real):
        raise _refusal(argument, given, remedy)
    check_finite(argument, given, remedy)
    return float(given)


def read_whole(argument: str, given: Any, remedy: str) -> int:
    """Return a whole number, which may be one of NumPy. Raises NotSendable, also for True and False."""
    if not is_whole(given):
        raise _refusal(argument, given, remedy)
    return int(given)


def is_whole(given: Any) -> bool:
    """Whether it is a whole number. Python counts True and False among them."""
    return type(given) is not bool and isinstance(given, Integral)


def check_finite(argument: str, value: Any, remedy: str = "JSON has finite numbers alone") -> None:
    """Raise NotSendable for a number that is nan or infinite, also in lists and dicts."""
    match value:
        case Mapping():
            for name, item in value.items():
                check_finite(f"{argument}[{name!r}]", item, remedy)
        case list() | tuple():
            for place, item in enumerate(value):
                check_finite(f"{argument}[{place}]", item, remedy)
        case Real() if not _is_finite(value):
            raise NotSendable(f"{argument} is {describe_value(value)}: {remedy}")


@contextmanager
def bounded_depth(argument: str) -> Iterator[None]:
    """Turn the end of Python's stack into NotSendable: lists and dicts may hold themselves."""
    try:
        yield
    except RecursionError:  # its traceback has a thousand lines
        raise NotSendable(
            f"{argument} is nested without end, or far too deeply: give lists and dicts that do not hold themselves"
        ) from None


def describe_value(value: Any) -> str:
    """Return the value as Python writes it; only its type if that is long, or has no end."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # Python writes no numbers of thousands of digits
        text = ""
    return text if 0 < len(text) <= _VALUE_MAX_CHARACTERS else f"of type {type(value).__name__}"


def _is_finite(number: Real) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond all floats
        return False


def _refusal(argument: str, given: Any, remedy: str) -> NotSendable:
    what = "an empty text" if isinstance(given, str) and not given else f"of type {type(given).__name__}"
    return NotSendable(f"{argument} is {what}: {remedy}")
