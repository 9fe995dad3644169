"""Carried state: whether what one call leaves for the next can show in an answer, found by leaving something else.

A counter that only a log shows is harmless, one that a later call compares with a thousand is not: what it is compared
with is noted, and tried.
"""

import copy
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tracehouse.findings.trace_check import Effect
from tracehouse.torch_values.compare import compare

_DEPTH = 4  # of containers and objects in one another
_NUMBERS_MAX = 8
_FAR = 1e9
_TOLERANCE = 1e-6

# Runs the calls on a copy in which this stands in the place of the state, and gives their outputs.
Run = Callable[[Any], Sequence[Any]]
Change = Callable[[Any], Any]


@dataclass(frozen=True)
class StateEffect:
    effect: Effect
    reason: str


def judge_state(
    value: Any, run: Run, numbers: Callable[[], Iterable[float]], is_late: Callable[[], bool]
) -> StateEffect:
    """Whether another value shows. `numbers` are those that tensors were compared with in the runs so far."""
    try:
        expected = run(copy.deepcopy(value))
    except Exception as error:  # noqa: BLE001 - submitted code, on a state of which the rest is missing
        return StateEffect("unknown", f"the state could not be put into a copy: {type(error).__name__}")
    compared = _compared_with(value, run)
    refused, tried = 0, 0
    for name, change in _changes([*compared, *numbers()]):
        if is_late():
            return StateEffect("unknown", "not every other state could be tried in time")
        changed = change_leaves(value, change)
        if _is_same(changed, value):
            continue
        try:
            given = run(changed)
        except Exception:  # noqa: BLE001 - submitted code: such a state is none for this model
            refused += 1
            continue
        tried += 1
        if any(not compare(one, other, _TOLERANCE).agrees for one, other in zip(expected, given, strict=True)):
            return StateEffect("harmful", f"the answers are others with {name}")
    if not tried:
        return StateEffect("unknown", "no other state could be put in its place")
    return StateEffect("harmless", "the answers are the same whatever is left")


def copy_content(value: Any) -> Any:
    """What is held, copied, as far as two can be compared."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be copied
        return value


def is_same_content(value: Any, other: Any) -> bool:
    try:
        return _is_same(value, other)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be compared
        return False


def _changes(numbers: Iterable[float]) -> Iterator[tuple[str, "Change"]]:
    yield "another number in it", _moved_number
    yield "a thousand more in it", lambda leaf: _added(leaf, 1000)
    yield "the opposite in it", _negated
    yield "nothing in it", _emptied
    yield "zeros in it", lambda leaf: _filled(leaf, 0)
    for far in (_FAR, -_FAR):
        yield f"{far:g} in it", partial(_far, value=far)
    for number in sorted({number for number in numbers if abs(number) < 2**53}, key=abs)[:_NUMBERS_MAX]:
        for beside in (-2, -1, 0, 1):
            yield f"{number + beside:g} in it", partial(_filled, value=number + beside)


def change_leaves(value: Any, change: Change, depth: int = _DEPTH) -> Any:
    """A copy, with its leaves changed."""
    changed = change(value)
    if changed is not value or not depth:
        return changed
    match value:
        case dict():
            kept = copy.copy(value)
            kept.update({key: change_leaves(item, change, depth - 1) for key, item in value.items()})
            return kept
        case list() | deque():
            items = copy.copy(value)
            items.clear()
            items.extend(change_leaves(item, change, depth - 1) for item in value)
            return items
        case tuple() if type(value) is tuple:
            return tuple(change_leaves(item, change, depth - 1) for item in value)
        case torch.nn.Module() | type():
            return value
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if not names or callable(value):
        return value
    made = copy.copy(value)
    for name in names:
        if hasattr(value, name):
            object.__setattr__(made, name, change_leaves(getattr(value, name), change, depth - 1))
    return made


def _moved_number(leaf: Any) -> Any:
    match leaf:
        case bool():
            return not leaf
        case float():
            return leaf * 1.5 + 0.125
        case torch.Tensor() if leaf.is_floating_point():
            return leaf.detach() * 1.5 + 0.125
        case itertools.count():
            return itertools.count(_next_of(leaf) + 1)
        case random.Random():
            return random.Random(1)
        case np.random.Generator():
            return np.random.default_rng(1)
        case torch.Generator():
            return torch.Generator(leaf.device).manual_seed(1)
        case np.ndarray() if leaf.dtype.kind == "f":
            return leaf * 1.5 + 0.125
    return _added(leaf, 1)


def _added(leaf: Any, number: int) -> Any:
    match leaf:
        case bool():
            return leaf
        case int() | float():
            return leaf + number
        case torch.Tensor() if leaf.dtype is torch.bool:
            return ~leaf
        case torch.Tensor():
            return leaf.detach() + number
        case np.ndarray() if leaf.dtype.kind in "iuf":
            return leaf + np.asarray(number, leaf.dtype)
        case itertools.count():
            return itertools.count(_next_of(leaf) + number)
    return leaf


def _negated(leaf: Any) -> Any:
    match leaf:
        case bool():
            return leaf
        case int() | float():
            return -leaf - 1
        case torch.Tensor() if leaf.dtype is not torch.bool:
            return -leaf.detach() - 1
    return leaf


def _emptied(leaf: Any) -> Any:
    if isinstance(leaf, list | dict | set | deque) and leaf:
        made = copy.copy(leaf)
        made.clear()
        return made
    return leaf


def _filled(leaf: Any, value: float) -> Any:
    match leaf:
        case bool():
            return leaf
        case int():
            return int(value)
        case float():
            return float(value)
        case torch.Tensor() if leaf.dtype is not torch.bool:
            return torch.full_like(leaf.detach(), value)
    return leaf


def _far(leaf: Any, value: float) -> Any:
    """No integers: these may index."""
    is_real = isinstance(leaf, float) or (
        isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.float32, torch.float64)
    )
    return _filled(leaf, value) if is_real else leaf


def _next_of(count: Any) -> Any:
    return next(copy.copy(count))


class _Noting(int):
    """An int that notes what it is compared with, and what is made of it."""

    noted: set[float]

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Noting":
        return self

    @classmethod
    def of(cls, value: int, noted: set[float]) -> "_Noting":
        made = cls(value)
        made.noted = noted
        return made


def _compares(name: str) -> Any:
    own = getattr(int, name)

    def method(self: _Noting, other: Any) -> Any:
        if isinstance(other, int | float):
            self.noted.add(float(other))
        return own(self, other)

    return method


def _computes(name: str, *, notes: bool) -> Any:
    own = getattr(int, name)

    def method(self: _Noting, other: Any) -> Any:
        if notes and isinstance(other, int):
            self.noted.add(float(other))
        given = own(self, other)
        return _Noting.of(given, self.noted) if type(given) is int else given

    return method


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Noting, _name, _compares(_name))
for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"):
    setattr(_Noting, _name, _computes(_name, notes=False))
for _name in ("__mod__", "__floordiv__", "__and__", "__rshift__"):
    setattr(_Noting, _name, _computes(_name, notes=True))
_Noting.__hash__ = int.__hash__  # type: ignore[method-assign]


def _compared_with(value: Any, run: Run) -> set[float]:
    """What the whole numbers in it are compared with in a run."""
    noted: set[float] = set()

    def noting(leaf: Any) -> Any:
        return _Noting.of(leaf, noted) if type(leaf) is int else leaf

    with suppress(Exception):  # submitted code: it may take none but plain integers
        run(change_leaves(value, noting))
    return set(noted)


def _is_same(value: Any, other: Any, depth: int = _DEPTH) -> bool:
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    match value:
        case torch.Tensor():
            same = value.shape == other.shape and value.dtype == other.dtype
            return same and bool(torch.equal(value, other) or torch.allclose(value, other, 0, 0, equal_nan=True))
        case np.ndarray():
            return bool(value.tobytes() == other.tobytes())
        case Mapping():
            return value.keys() == other.keys() and all(_is_same(value[key], other[key], depth - 1) for key in value)
        case list() | tuple() | deque():
            return len(value) == len(other) and all(map(_is_same, value, other))
        case itertools.count():
            return repr(value) == repr(other)
        case int() | float() | str() | bytes() | None:
            return value == other or (value != value and other != other)  # noqa: PLR0124 - NaN
        case torch.Generator():
            return torch.equal(value.get_state(), other.get_state())
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if depth and names:
        return all(_is_same(getattr(value, name, None), getattr(other, name, None), depth - 1) for name in names)
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001 - submitted code
        return False
