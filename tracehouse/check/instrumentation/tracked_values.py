"""Tracked values: values that were read out of a tensor, and every question with a boolean answer about them.

Python asks a question when it compares a value, or compares what it computed from one. Each answer can be overridden,
so that a branch which only a single value takes is found without knowing that value. This is predicate switching
(Zhang, Gupta and Gupta, 2006).
"""

import builtins
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from tracehouse.check.instrumentation.ambient_reads import replace_functions
from tracehouse.check.instrumentation.value_reads import ReadSite, find_reading_frame, locate_read

# Where in the user's code a truth is asked, and by which method. A read of a boolean is a question itself.
Question = ReadSite

_ANSWERS_MAX = 64  # overridden answers to one question: a loop may go on for as long as its condition is overridden
_QUESTIONS_MAX = 200
_BUILTINS = ("bin", "chr", "divmod", "hex", "oct", "ord")


class ValueTracker:
    """Tracks the values that one run reads, and records each question about them with its true answers.

    `overrides` has the answers that Python gets in place of the true ones.
    """

    def __init__(self, overrides: Mapping[Question, bool] | None = None) -> None:
        self.answers: dict[Question, set[bool]] = {}
        self.reads: dict[Question, ReadSite] = {}  # the read that each question is about
        self.lost: dict[ReadSite, str] = {}  # the reads that could not be followed to the end, and why
        self.uses = 0  # how often a value was read, or computed from one
        self.last_read: ReadSite | None = None  # the one that was used last
        self.is_over = False  # after the run, each question has its true answer: a cache may still hold tracked values
        self._overrides = overrides or {}
        self._times: dict[Question, int] = {}

    def track_read(self, read: ReadSite, value: Any) -> Any:
        """Return what a read passes on to Python: the tracked value, or the answer if the value is a boolean."""
        return self._answer(read, read, value) if type(value) is bool else self.track(read, value)

    def track(self, read: ReadSite, value: Any) -> Any:
        """Return an equal value that is tracked; for a list or a tuple, one with tracked elements.

        An array keeps its shape. A value of any other type is returned as it is.
        """
        self.uses += 1
        self.last_read = read
        plain = value.item() if isinstance(value, np.generic) else value
        kind = _TRACKED_TYPES.get(type(plain))
        if kind is not None or type(value) is np.ndarray:
            tracked = value.view(_TrackedArray) if kind is None else kind(plain)
            tracked.tracker, tracked.read = self, read
            return tracked
        if type(value) not in (list, tuple):
            return value
        return type(value)(self.track(read, item) for item in value)

    def find_other_answers(self, questions: Iterable[Question]) -> Iterator[tuple[Question, bool]]:
        """Yield the answers that these questions have not had; a question that had both has two."""
        for question in questions:
            for other in (True, False):
                if self.answers.get(question, {other}) != {other}:
                    yield question, other

    def lose(self, read: ReadSite, reason: str) -> None:
        """Note that it is unknown what follows from a read."""
        self.lost.setdefault(read, reason)

    def answer_here(self, read: ReadSite, method: str, answer: Any) -> Any:
        """Return the answer to a question that the user's code asks now, by this method."""
        frame = find_reading_frame(sys._getframe(2))
        return answer if frame is None else self._answer(read, locate_read(frame, method), answer)

    def _answer(self, read: ReadSite, question: Question, answer: Any) -> Any:
        if type(answer) is not bool or self.is_over or read.kind == "data_ptr":  # no input gives another address
            return answer
        self.uses += 1
        self.last_read = read
        if question in self.answers or len(self.answers) < _QUESTIONS_MAX:
            self.answers.setdefault(question, set()).add(answer)
            self.reads.setdefault(question, read)
        times = self._times[question] = self._times.get(question, 0) + 1
        return self._overrides.get(question, answer) if times <= _ANSWERS_MAX else answer


@contextmanager
def track_functions() -> Iterator[None]:
    """In the body, the functions of `math`, and the builtin functions of numbers, track their results."""
    named = [*((math, name) for name in dir(math)), *((builtins, name) for name in _BUILTINS)]
    owned = [(module, name, getattr(module, name)) for module, name in named]
    with replace_functions(
        {id(own): (module, name, _make_tracking_function(name, own)) for module, name, own in owned if callable(own)}
    ):
        yield


def _make_tracking_function(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        tracked = next((arg for arg in args if isinstance(arg, TrackedValue)), None)
        if tracked is None:
            return result
        return tracked.answer(name, result) if type(result) is bool else tracked.track(result)

    return function


class TrackedValue:
    """A value that its tracker knows, and the read that it follows from."""

    tracker: ValueTracker
    read: ReadSite

    def track(self, value: Any) -> Any:
        """Return a tracked value that was computed from this one."""
        return self.tracker.track(self.read, value)

    def answer(self, method: str, answer: Any) -> Any:
        """Return the answer to a question about this one."""
        return self.tracker.answer_here(self.read, method, answer)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles are of the value alone."""
        return _take_plain, (to_plain(self),)


class TrackedNone(TrackedValue):
    """A None that follows from a read; a follower takes it for None where it is compared or handed to a function."""

    def __bool__(self) -> bool:
        return bool(self.answer("bool", False))

    def __eq__(self, other: object) -> bool:
        return bool(self.answer("eq", other is None or isinstance(other, TrackedNone)))

    def __hash__(self) -> int:
        return hash(None)


class _TrackedInt(TrackedValue, int):
    pass


class _TrackedFloat(TrackedValue, float):
    pass


class _TrackedStr(TrackedValue, str):
    pass


class _TrackedBytes(TrackedValue, bytes):
    pass


def _take_plain(value: Any) -> Any:
    return value


def to_plain(value: TrackedValue) -> Any:
    """Return the value that is tracked."""
    match value:
        case np.ndarray():
            return np.asarray(value)
        case int() | float() | str() | bytes():
            kind: Any = type(value).__mro__[2]
            return kind.__new__(kind, value) if kind is not str else str.__str__(value)
    return None


class _TrackedArray(TrackedValue, np.ndarray):
    """An array of which an element or a reduction is a tracked number, and of which numpy computes tracked arrays."""

    def __array_finalize__(self, array: Any) -> None:
        if isinstance(array, TrackedValue):
            self.tracker, self.read = array.tracker, array.read


def _make_none(_: None) -> TrackedNone:
    return TrackedNone()


_TRACKED_TYPES: dict[type, Any] = {
    int: _TrackedInt, float: _TrackedFloat, str: _TrackedStr, bytes: _TrackedBytes, type(None): _make_none
}  # fmt: skip


def _make_question(name: str, own: Callable[..., Any]) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = own(self, *args, **kwargs)
        return self.answer(name, bool(answer) if isinstance(answer, np.bool_) else answer)

    return method


def _make_computation(_: str, own: Callable[..., Any]) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.track(own(self, *args, **kwargs))

    return method


_QUESTIONS = "eq ne lt le gt ge bool contains".split()
_COMPUTATIONS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor "
    "lshift rlshift rshift rrshift neg abs round floor ceil trunc str repr format getitem"
).split()
_NUMBER_METHODS = {
    "is_integer": _make_question,
    "bit_length": _make_computation,
    "bit_count": _make_computation,
    "hex": _make_computation,
}
_STRING_METHODS = {
    "startswith": _make_question,
    "endswith": _make_question,
    "split": _make_computation,
    "strip": _make_computation,
    "lower": _make_computation,
}
_METHODS = {
    **{f"__{name}__": _make_question for name in _QUESTIONS},
    **{f"__{name}__": _make_computation for name in _COMPUTATIONS},
    **_NUMBER_METHODS,
    **_STRING_METHODS,
}
_ARRAY_METHODS = {
    **dict.fromkeys(("__bool__", "any", "all"), _make_question),
    **dict.fromkeys(
        ("__getitem__", "mean", "sum", "max", "min", "std", "argmax", "argmin", "item", "tolist"), _make_computation
    ),
}

for _name, _make in _ARRAY_METHODS.items():
    setattr(_TrackedArray, _name, _make(_name, getattr(np.ndarray, _name)))
for _plain, _tracked in ((int, _TrackedInt), (float, _TrackedFloat), (str, _TrackedStr), (bytes, _TrackedBytes)):
    for _name in _METHODS.keys() & dir(_plain):
        setattr(_tracked, _name, _METHODS[_name](_name, getattr(_plain, _name)))
    _tracked.__hash__ = _plain.__hash__  # type: ignore[method-assign]
