"""Followed values: what was read out of a tensor, and what Python asks of it and of what it makes of it.

Each answer can be another one: a branch that one value alone takes is found without that value.
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

# By where it is asked in the user's code, and what; a read of a truth is one of its own.
Question = ReadSite

_ANSWERS_MAX = 64  # a loop may go on while what it asks is answered otherwise
_QUESTIONS_MAX = 200
_BUILTINS = ("bin", "chr", "divmod", "hex", "oct", "ord")


class ValueTracker:
    """`given` are answers in the place of the true ones."""

    def __init__(self, given: Mapping[Question, bool] | None = None) -> None:
        self.answers: dict[Question, set[bool]] = {}
        self.reads: dict[Question, ReadSite] = {}  # what the question is about
        self._given = given or {}
        self._times: dict[Question, int] = {}

    def of(self, read: ReadSite, value: Any) -> Any:
        """What a read hands on."""
        return self._told(read, read, value) if type(value) is bool else self.follow(read, value)

    def follow(self, read: ReadSite, value: Any) -> Any:
        """The same value, followed; a list has each of its elements followed."""
        plain = value.item() if isinstance(value, np.generic) else value
        kind = _KINDS.get(type(plain))
        if kind is not None or type(value) is np.ndarray:
            made = value.view(_Array) if kind is None else kind(plain)
            made.follow, made.asked = partial(self.follow, read), partial(self._asked, read)
            return made
        if type(value) not in (list, tuple):
            return value
        return type(value)(self.follow(read, item) for item in value)

    def _asked(self, read: ReadSite, what: str, answer: Any) -> Any:
        frame = find_reading_frame(sys._getframe(2))
        return answer if frame is None else self._told(read, locate_read(frame, what), answer)

    def _told(self, read: ReadSite, question: Question, answer: Any) -> Any:
        if type(answer) is not bool:
            return answer
        if question in self.answers or len(self.answers) < _QUESTIONS_MAX:
            self.answers.setdefault(question, set()).add(answer)
            self.reads.setdefault(question, read)
        times = self._times[question] = self._times.get(question, 0) + 1
        return self._given.get(question, answer) if times <= _ANSWERS_MAX else answer


@contextmanager
def track_functions() -> Iterator[None]:
    """Python's functions of numbers tell of what they are given."""
    named = [*((math, name) for name in dir(math)), *((builtins, name) for name in _BUILTINS)]
    owned = [(module, name, getattr(module, name)) for module, name in named]
    with replace_functions(
        {id(own): (module, name, _passing(name, own)) for module, name, own in owned if callable(own)}
    ):
        yield


def _passing(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def function(*args: Any, **kwargs: Any) -> Any:
        given = own(*args, **kwargs)
        followed = next((arg for arg in args if isinstance(arg, _Followed)), None)
        if followed is None:
            return given
        return followed.asked(name, given) if type(given) is bool else followed.follow(given)

    return function


class _Converting(type):
    """In the place of int and float, which would make plain numbers of followed ones."""

    own: type

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        match args:
            case (torch.Tensor(),):
                return getattr(args[0], f"__{cls.own.__name__}__")()
            case (_Followed(),):
                return args[0].follow(cls.own(args[0]))
        return cls.own(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.own)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.own, name)


class _ToInt(metaclass=_Converting):
    own = int


class _ToFloat(metaclass=_Converting):
    own = float


@contextmanager
def track_conversions() -> Iterator[None]:
    """In the submitted modules; not where int and float are handed to torch or numpy, which take no other types."""
    kinds = {"int": _ToInt, "float": _ToFloat}
    modules = [sys.modules.get(name) for name in list(user_lines.submitted.values())]
    put = [(vars(module), name) for module in modules if module for name in kinds if name not in vars(module)]
    try:
        for names, name in put:
            names[name] = kinds[name]
        yield
    finally:
        for names, name in put:
            names.pop(name, None)


class _Followed:
    follow: Callable[[Any], Any]
    asked: Callable[[str, Any], Any]


class _Int(_Followed, int):
    pass


class _Float(_Followed, float):
    pass


class _Str(_Followed, str):
    pass


class _Array(_Followed, np.ndarray):
    """What it is indexed or reduced to is Python's number; what numpy's functions make of it is an array as it is."""

    def __array_finalize__(self, array: Any) -> None:
        if isinstance(array, _Followed):
            self.follow, self.asked = array.follow, array.asked


_KINDS: dict[type, Any] = {int: _Int, float: _Float, str: _Str}


def _asks(name: str, own: Callable[..., Any]) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = own(self, *args, **kwargs)
        return self.asked(name, bool(answer) if isinstance(answer, np.bool_) else answer)

    return method


def _makes(_: str, own: Callable[..., Any]) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.follow(own(self, *args, **kwargs))

    return method


_ASK = "eq ne lt le gt ge bool contains".split()
_MAKE = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor "
    "lshift rlshift rshift rrshift neg abs round floor ceil trunc str repr format getitem"
).split()
_OF_STRINGS = {"startswith": _asks, "endswith": _asks, "split": _makes, "strip": _makes, "lower": _makes}
_METHODS = {**{f"__{name}__": _asks for name in _ASK}, **{f"__{name}__": _makes for name in _MAKE}, **_OF_STRINGS}
_OF_ARRAYS = {
    **dict.fromkeys(("__bool__", "any", "all"), _asks),
    **dict.fromkeys(("__getitem__", "mean", "sum", "max", "min", "std", "argmax", "argmin", "item", "tolist"), _makes),
}

for _name, _make in _OF_ARRAYS.items():
    setattr(_Array, _name, _make(_name, getattr(np.ndarray, _name)))
for _plain, _followed in _KINDS.items():
    for _name in _METHODS.keys() & dir(_plain):
        setattr(_followed, _name, _METHODS[_name](_name, getattr(_plain, _name)))
    _followed.__hash__ = _plain.__hash__
