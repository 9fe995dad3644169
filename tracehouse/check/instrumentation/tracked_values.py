"""Tracked values: numbers that were read out of a tensor, and every question with a boolean answer about them.

Python asks a question when it compares a value, or compares what it computed from one. Each answer can be overridden,
so that a branch which only a single value takes is found without knowing that value. This is predicate switching
(Zhang, Gupta and Gupta, 2006).
"""

import builtins
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import torch

from tracehouse.check.instrumentation.ambient_reads import replace_functions
from tracehouse.check.instrumentation.value_reads import ReadSite, find_reading_frame, locate_read
from tracehouse.introspection import user_lines

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
        self._overrides = overrides or {}
        self._times: dict[Question, int] = {}

    def track_read(self, read: ReadSite, value: Any) -> Any:
        """Return what a read passes on to Python: the tracked value, or the answer if the value is a boolean."""
        return self._answer(read, read, value) if type(value) is bool else self.track(read, value)

    def track(self, read: ReadSite, value: Any) -> Any:
        """Return an equal value that is tracked; for a list or a tuple, one with tracked elements.

        An array keeps its shape. A value of any other type is returned as it is.
        """
        plain = value.item() if isinstance(value, np.generic) else value
        kind = _TRACKED_TYPES.get(type(plain))
        if kind is not None or type(value) is np.ndarray:
            tracked = value.view(_TrackedArray) if kind is None else kind(plain)
            tracked.track, tracked.answer = partial(self.track, read), partial(self._answer_here, read)
            return tracked
        if type(value) not in (list, tuple):
            return value
        return type(value)(self.track(read, item) for item in value)

    def _answer_here(self, read: ReadSite, method: str, answer: Any) -> Any:
        frame = find_reading_frame(sys._getframe(2))
        return answer if frame is None else self._answer(read, locate_read(frame, method), answer)

    def _answer(self, read: ReadSite, question: Question, answer: Any) -> Any:
        if type(answer) is not bool:
            return answer
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
        tracked = next((arg for arg in args if isinstance(arg, _TrackedValue)), None)
        if tracked is None:
            return result
        return tracked.answer(name, result) if type(result) is bool else tracked.track(result)

    return function


class _TrackingConversion(type):
    """The type of what takes the place of int and float, which would make untracked numbers of tracked ones."""

    own: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        match args:
            case (torch.Tensor(),):
                return getattr(args[0], f"__{cls.own.__name__}__")()
            case (_TrackedValue(),):
                return args[0].track(cls.own(args[0]))
        return cls.own(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.own)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.own, name)


class _ToInt(metaclass=_TrackingConversion):
    own = int


class _ToFloat(metaclass=_TrackingConversion):
    own = float


@contextmanager
def track_conversions() -> Iterator[None]:
    """In the body, `int` and `float` in the submitted modules return tracked numbers.

    torch and numpy do not accept the replacements where a type is expected, so a trace may fail in the body.
    """
    conversions = {"int": _ToInt, "float": _ToFloat}
    modules = user_lines.submitted_modules().values()
    added = [(vars(module), name) for module in modules for name in conversions if name not in vars(module)]
    try:
        for namespace, name in added:
            namespace[name] = conversions[name]
        yield
    finally:
        for namespace, name in added:
            namespace.pop(name, None)


class _TrackedValue:
    track: Callable[[Any], Any]  # returns a tracked value that was computed from this one
    answer: Callable[[str, Any], Any]  # returns the answer to a question about this one


class _TrackedInt(_TrackedValue, int):
    pass


class _TrackedFloat(_TrackedValue, float):
    pass


class _TrackedStr(_TrackedValue, str):
    pass


class _TrackedArray(_TrackedValue, np.ndarray):
    """An array of which an element or a reduction is a tracked number, and of which numpy computes tracked arrays."""

    def __array_finalize__(self, array: Any) -> None:
        if isinstance(array, _TrackedValue):
            self.track, self.answer = array.track, array.answer


_TRACKED_TYPES: dict[type, Any] = {int: _TrackedInt, float: _TrackedFloat, str: _TrackedStr}


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
for _plain, _tracked in _TRACKED_TYPES.items():
    for _name in _METHODS.keys() & dir(_plain):
        setattr(_tracked, _name, _METHODS[_name](_name, getattr(_plain, _name)))
    _tracked.__hash__ = _plain.__hash__
