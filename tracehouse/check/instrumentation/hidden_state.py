"""Hidden state: other values in place of what earlier calls left show whether an answer depends on it.

A counter that is only logged is harmless. One that a later call compares with 1000 is not, so the numbers that it is
compared with are recorded, and put in its place.
"""

import array
import copy
import ctypes
import io
import itertools
import queue
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tracehouse.check.time_limit import TooSlow
from tracehouse.eager.state_marks import GENERATORS
from tracehouse.findings.finding import Effect
from tracehouse.torch_values.compare import compare

_DEPTH = 4  # containers and objects inside one another are changed and compared so deep
_NUMBERS_MAX = 8  # of the numbers that something is compared with, so many are accepted
_FAR = 1e9
_MANY = 10_000  # calls of a model, as a counter or a log of it shows them. Chosen
_LONG_MAX = 4  # so many containers of a state are made long
_PLAIN_ITEMS = (int, float, str, bytes, type(None))
_TOLERANCE = 1e-6

_QUEUES = (queue.Queue, queue.LifoQueue, queue.PriorityQueue)

# Returns the outputs of the calls, each made on a copy of the model that has this value in the place of the state.
Run = Callable[[Any], Sequence[Any]]
Change = Callable[[Any], Any]


@dataclass(frozen=True)
class StateEffect:
    """Whether answers depend on a state, and the reason."""

    effect: Effect
    reason: str


def judge_state(
    value: Any, run: Run, numbers: Callable[[], Iterable[float]], is_late: Callable[[], bool]
) -> StateEffect:
    """Return whether the outputs of `run` depend on the state, whose present value is `value`.

    `numbers` returns the numbers that tensors were compared with in the runs so far, and `is_late` says when to stop. A
    value with which the model raises counts for nothing; one on which a run is stopped leaves the effect unknown.
    Outputs differ by the rule of `differential.comparison`, with a relative tolerance of 1e-6. Nothing that `run`
    raises comes out.
    """
    if isinstance(value, Uncopyable):
        return StateEffect("unknown", "it cannot be copied, so nothing can be tried in its place")
    try:
        expected = run(copy_state(value))
    except (Exception, TooSlow) as error:  # noqa: BLE001 - submitted code, on a state of which the rest is missing
        return StateEffect("unknown", f"a call with a copy of the state raises {type(error).__name__}")
    comparands = _find_comparands(value, run)
    accepted = 0  # so many other values the model accepted
    for name, change in _make_changes([*comparands, *numbers()]):
        if is_late():
            return StateEffect("unknown", "the check had no time to try every other state")
        try:
            changed = change_leaves(value, change)
            if _is_same(changed, value):
                continue
            outputs = run(changed)
        except Exception:  # noqa: BLE001 - submitted code: the model may not accept such a state
            continue
        except TooSlow as slow:
            return StateEffect("unknown", f"a call with {name} was stopped: {slow}")
        accepted += 1
        if any(not compare(one, other, _TOLERANCE).agrees for one, other in zip(expected, outputs, strict=True)):
            return StateEffect("harmful", f"the answers change if the state holds {name}")
    if not accepted:
        return StateEffect("unknown", "the model accepts no other state in its place")
    if _holds_generator(value):
        return StateEffect("unknown", "it draws random numbers, and others than those that were drawn may matter")
    return StateEffect("harmless", "the answers stay the same with every other state that was tried")


class Uncopyable:
    """Stands for a state that refuses to be copied. It is like no other state, and no model takes it for one."""


def _holds_generator(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a generator of random numbers is in a state, or nothing can be found out about it."""
    if isinstance(value, GENERATORS):
        return True
    if not depth:
        return False
    try:
        match value:
            case dict():
                items = [*value.values()]
            case list() | tuple() | deque():
                items = [*value]
            case _:
                items = [*getattr(value, "__dict__", {}).values()]
        return any(_holds_generator(item, depth - 1) for item in items)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be looked at
        return True


def copy_state(value: Any) -> Any:
    """Return a deep copy of a state. Raises whatever the state raises if it refuses to be copied."""
    if type(value) in _QUEUES:  # its locks refuse it
        return _copy_queue(value, copy.deepcopy(value.queue))
    return copy.deepcopy(value)


def _copy_queue(value: Any, items: Any) -> Any:
    copied = type(value)(value.maxsize)
    copied.queue = items
    return copied


def copy_content(value: Any) -> Any:
    """Return a copy of a state, or an Uncopyable if it refuses to be copied."""
    try:
        return copy_state(value)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be copied
        return Uncopyable()


def is_same_content(value: Any, other: Any) -> bool:
    """Whether two states are equal; False if they refuse to be compared."""
    try:
        return _is_same(value, other)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be compared
        return False


def _make_changes(numbers: Iterable[float]) -> Iterator[tuple[str, Change]]:
    yield "another number", _change_number
    for more in (1000, _MANY):
        yield f"a number that is larger by {more:,}", partial(_add, number=more)
    yield f"over {_MANY:,} items", _Lengthener()
    yield "a number of the other sign", _negate
    yield "nothing", _empty
    yield "zeros", lambda leaf: _fill(leaf, 0)
    for far in (_FAR, -_FAR):
        yield f"{far:g}", partial(_fill_reals, value=far)
    for number in sorted({number for number in numbers if abs(number) < 2**53}, key=abs)[:_NUMBERS_MAX]:
        for beside in (-2, -1, 0, 1):
            yield f"{number + beside:g}", partial(_fill, value=number + beside)


def change_leaves(value: Any, change: Change, depth: int = _DEPTH) -> Any:
    """Return a copy of a nested value with `change` applied to its leaves, down to `depth` containers or objects."""
    changed = change(value)
    if changed is not value or not depth:
        return changed
    match value:
        case dict():
            items = copy.copy(value)
            items.update({key: change_leaves(item, change, depth - 1) for key, item in value.items()})
            return items
        case list() | deque():
            sequence = copy.copy(value)
            sequence.clear()
            sequence.extend(change_leaves(item, change, depth - 1) for item in value)
            return sequence
        case tuple() if type(value) is tuple:
            return tuple(change_leaves(item, change, depth - 1) for item in value)
        case torch.nn.Module() | type():
            return value
    if type(value).__module__.startswith("multiprocessing."):  # one with another descriptor would close that
        return value
    if type(value) in _QUEUES:
        return _copy_queue(value, change_leaves(value.queue, change, depth - 1))
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if not names or callable(value):
        return value
    changed = copy.copy(value)
    if changed is value:  # such as a member of an enumeration
        return value
    for name in names:
        if hasattr(value, name):
            object.__setattr__(changed, name, change_leaves(getattr(value, name), change, depth - 1))
    return changed


def find_tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested value, down to the depth to which its leaves are changed."""
    found: list[torch.Tensor] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        return leaf

    with suppress(Exception):  # submitted code: it may refuse to be looked at
        change_leaves(value, note)
    return found


def _change_number(leaf: Any) -> Any:
    match leaf:
        case bool():
            return not leaf
        case float():
            return leaf * 1.5 + 0.125
        case torch.Tensor() if leaf.is_floating_point():
            return leaf.detach() * 1.5 + 0.125
        case itertools.count():
            return itertools.count(_peek(leaf) + 1)
        case random.Random():
            return random.Random(1)
        case np.random.Generator():
            return np.random.default_rng(1)
        case np.random.RandomState():
            return np.random.RandomState(1)
        case torch.Generator():
            return torch.Generator(leaf.device).manual_seed(1)
        case np.ndarray() if leaf.dtype.kind == "f":
            return leaf * 1.5 + 0.125
    return _add(leaf, 1)


def _add(leaf: Any, number: int) -> Any:
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
            return leaf + np.asarray(number).astype(leaf.dtype)
        case array.array() if leaf.typecode != "u":
            with suppress(OverflowError):
                return array.array(leaf.typecode, [item + number for item in leaf])
        case itertools.count():
            return itertools.count(_peek(leaf) + number)
        case ctypes._SimpleCData() if type(leaf.value) is int:
            return type(leaf)(leaf.value + number)
    return leaf


def _negate(leaf: Any) -> Any:
    match leaf:
        case bool():
            return leaf
        case int() | float():
            return -leaf - 1
        case torch.Tensor() if leaf.dtype is not torch.bool:
            return -leaf.detach() - 1
        case np.ndarray() if leaf.dtype.kind in "if":
            return -leaf - 1
    return leaf


def _empty(leaf: Any) -> Any:
    if isinstance(leaf, list | dict | set | deque) and leaf:
        container = copy.copy(leaf)
        container.clear()
        return container
    return leaf


class _Lengthener:
    """Makes containers and texts in memory hold far more, as after many calls; only so many of one state."""

    def __init__(self) -> None:
        self._left = _LONG_MAX

    def __call__(self, leaf: Any) -> Any:
        """Return the leaf with far more items. A container of tensors, or one that is long already, stays as it is."""
        longer = _lengthen(leaf) if self._left else leaf
        self._left -= longer is not leaf
        return longer


def _lengthen(leaf: Any) -> Any:
    match leaf:
        case list() | deque() if _is_plain(leaf):
            container = copy.copy(leaf)
            container.extend([*leaf] * (_MANY // len(leaf) + 1))
            return container
        case dict() if _is_plain(leaf) and _is_plain(leaf.values()):
            items, value = copy.copy(leaf), next(reversed(leaf.values()))
            for key in _make_keys_like(next(iter(leaf))):
                items.setdefault(key, value)
            return items
        case set() if _is_plain(leaf):
            return {*leaf, *_make_keys_like(next(iter(leaf)))}
        case io.StringIO() | io.BytesIO() if 0 < len(leaf.getvalue()) < _MANY:
            longer = copy.copy(leaf)
            longer.seek(0, io.SEEK_END)
            longer.write(leaf.getvalue() * (_MANY // len(leaf.getvalue()) + 1))  # type: ignore[arg-type]
            return longer
    return leaf


def _is_plain(items: Collection[Any]) -> bool:
    """Whether there are a few items, all of them numbers, texts or tuples of these: many of them take little memory."""
    return 0 < len(items) < _MANY and all(
        not item or _is_plain(item) if isinstance(item, tuple) else isinstance(item, _PLAIN_ITEMS) for item in items
    )


def _make_keys_like(key: Any) -> list[Any]:
    """Return other keys: texts where this one is a text, else numbers."""
    return [str(number) if isinstance(key, str) else number for number in range(_MANY)]


def _fill(leaf: Any, value: float) -> Any:
    match leaf:
        case bool():
            return leaf
        case int():
            return int(value)
        case float():
            return float(value)
        case itertools.count():
            return itertools.count(int(value))
        case ctypes._SimpleCData() if type(leaf.value) is int:
            return type(leaf)(int(value))
        case torch.Tensor() if leaf.dtype is not torch.bool:
            return torch.full_like(leaf.detach(), value)
        case np.ndarray() if leaf.dtype.kind in "iuf":
            return np.full_like(leaf, value)
    return leaf


def _fill_reals(leaf: Any, value: float) -> Any:
    """Fill real numbers alone, because an integer may be an index."""
    match leaf:
        case torch.Tensor():
            is_real = leaf.dtype in (torch.float32, torch.float64)
        case np.ndarray():
            is_real = leaf.dtype.kind == "f"
        case _:
            is_real = isinstance(leaf, float)
    return _fill(leaf, value) if is_real else leaf


def _peek(count: Any) -> Any:
    return next(copy.copy(count))


class _RecordingInt(int):
    """An int that records the numbers it is compared with, and so does every int that is computed from it."""

    comparands: set[float]

    def __deepcopy__(self, memo: dict[int, Any]) -> "_RecordingInt":
        return self

    @classmethod
    def make(cls, value: int, comparands: set[float]) -> "_RecordingInt":
        """Return an int that adds to `comparands`."""
        number = cls(value)
        number.comparands = comparands
        return number


class _RecordingCount:
    """Counts as `itertools.count` does, in ints that record what they are compared with."""

    def __init__(self, number: _RecordingInt) -> None:
        self._next = number

    def __iter__(self) -> "_RecordingCount":
        return self

    def __next__(self) -> _RecordingInt:
        number, self._next = self._next, self._next + 1  # type: ignore[assignment]
        return number


def _make_comparison(name: str) -> Any:
    own = getattr(int, name)

    def method(self: _RecordingInt, other: Any) -> Any:
        if isinstance(other, int | float):
            self.comparands.add(float(other))
        return own(self, other)

    return method


def _make_arithmetic(name: str, *, records: bool) -> Any:
    """Return a method of arithmetic; with `records` its other operand counts as a comparand."""
    own = getattr(int, name)

    def method(self: _RecordingInt, other: Any) -> Any:
        if records and isinstance(other, int):
            self.comparands.add(float(other))
        result = own(self, other)
        return _RecordingInt.make(result, self.comparands) if type(result) is int else result

    return method


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_RecordingInt, _name, _make_comparison(_name))
for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"):
    setattr(_RecordingInt, _name, _make_arithmetic(_name, records=False))
for _name in ("__mod__", "__floordiv__", "__and__", "__rshift__"):
    setattr(_RecordingInt, _name, _make_arithmetic(_name, records=True))
_RecordingInt.__hash__ = int.__hash__  # type: ignore[method-assign]


def _find_comparands(value: Any, run: Run) -> set[float]:
    """Return the numbers that the integers of a state are compared with in one run."""
    comparands: set[float] = set()

    def record(leaf: Any) -> Any:
        if isinstance(leaf, itertools.count):
            return _RecordingCount(_RecordingInt.make(_peek(leaf), comparands))
        return _RecordingInt.make(leaf, comparands) if type(leaf) is int else leaf

    with suppress(Exception, TooSlow):  # submitted code: it may accept nothing but plain integers
        run(change_leaves(value, record))
    return set(comparands)


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
        case int() | float() | str() | bytes() | None:
            return value == other or (value != value and other != other)  # noqa: PLR0124 - NaN
    if (position := _position_of(value)) is not None:
        return bool(position == _position_of(other))
    if type(value) in _QUEUES:
        return _is_same(value.queue, other.queue, depth - 1)
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    if depth and names:
        return all(_is_same(getattr(value, name, None), getattr(other, name, None), depth - 1) for name in names)
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001 - submitted code
        return False


def _position_of(value: Any) -> Any:
    """Return how far an iterator, a generator of random numbers or a text in memory has come; None for other values."""
    match value:
        case itertools.count():
            return repr(value)
        case torch.Generator():
            return value.get_state().tolist()
        case random.Random():
            return value.getstate()
        case np.random.Generator():
            return repr(value.bit_generator.state)
        case np.random.RandomState():
            return repr(value.get_state())
        case io.StringIO() | io.BytesIO():
            return value.tell(), value.getvalue()
    return None
