"""The size follower: it follows sizes that are symbols through what Python does with them beside arithmetic.

A symbol is no int: it has no hash, it shows its own name as text, and a division by it raises nothing. Where the model
would notice, the size becomes a number, under the condition that it is that number. A text that only a person reads
needs no condition.
"""

import logging
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import torch

from tracehouse.check.instrumentation.followed_code import COMPARISONS, Follower, is_any_of, is_followed
from tracehouse.check.prove.disguise import PYTHON_TYPES, number_of
from tracehouse.check.prove.symbols import SYMBOLIC
from tracehouse.introspection import user_lines

_DEPTH = 3
# What they give for a symbol follows from it as it does from a number.
_TAKES_SYMBOLS = {
    min, max, sum, abs, range, list, tuple, zip, enumerate, reversed, sorted, round, divmod, pow, len, int, float, bool,
    slice, map, filter, any, all, iter, next, callable, setattr, dict, id, super, print, warnings.warn,
}  # fmt: skip
_STORING = {"append", "extend", "insert", "copy", "items", "values", "keys", "update", "pop"}
_WRITES_TEXT = {str, repr, ascii, format}
_ARITHMETIC = {"math", "operator", "_operator", "itertools", "functools", "typing", "copy", "contextlib", "logging"}
_DIVISIONS = ("truediv", "floordiv", "mod", "itruediv", "ifloordiv", "imod")


class SizeText(str):
    """A text that was made of sizes that are symbols; it shows the sizes at which the run began."""

    sizes: tuple[Any, ...]


class SizeFollower(Follower):
    """A follower of `followed_code` for runs on symbols. Outside of `symbolic` it only notes what is caught."""

    def __init__(self) -> None:
        self._caught: list[str] = []
        self._is_symbolic = False

    @contextmanager
    def symbolic(self) -> Iterator[None]:
        """In the body, sizes may be symbols."""
        self._is_symbolic = True
        try:
            yield
        finally:
            self._is_symbolic = False

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not self._is_symbolic:
            return super().call(function, *args, **kwargs)
        sizes = [*_find_sizes((getattr(function, "__self__", None), args, kwargs))]
        if not sizes:
            return function(*args, **kwargs)
        if is_any_of(function, (isinstance, type)) and isinstance(args[0], SYMBOLIC):
            return function(PYTHON_TYPES[type(args[0])](), *args[1:])
        if _takes_symbols(function):
            return function(*args, **kwargs)
        if _writes_text(function):
            text = _call_plainly(function, args, kwargs, _hint_of)
            return _make_text(text, sizes) if isinstance(text, str) else text
        return _call_plainly(function, args, kwargs, number_of)

    def take_attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, torch.SymInt) and not hasattr(owner, name):
            return getattr(number_of(owner), name)
        return getattr(owner, name)

    def take_item(self, container: Any, key: Any) -> Any:
        if self._is_symbolic and _is_hashing(container):
            key = fix_symbols(key)
        if isinstance(container, SizeText):
            container = fix_symbols(container)
        return container[key]

    def put_item(self, value: Any, container: Any, key: Any) -> None:
        container[fix_symbols(key) if self._is_symbolic and _is_hashing(container) else key] = value

    def operate(self, name: str, left: Any, right: Any) -> Any:
        if not self._is_symbolic:
            return super().operate(name, left, right)
        if isinstance(left, str) and (sizes := [*_find_sizes((left, right))]):
            text = getattr(operator, name)(_replace(left, _hint_of), _replace(right, _hint_of))
            return _make_text(text, sizes)
        if name in _DIVISIONS and isinstance(right, SYMBOLIC) and not isinstance(left, torch.Tensor) and right == 0:
            raise ZeroDivisionError("division by zero")
        return super().operate(name, left, right)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        if not self._is_symbolic:
            return super().compare(name, left, right)
        is_number = name in ("Is", "IsNot") and not any(one is None or isinstance(one, bool) for one in (left, right))
        is_looked_up = name in ("In", "NotIn") and (_is_hashing(right) or isinstance(right, str))
        has_symbol, has_text = (any(isinstance(one, kind) for one in (left, right)) for kind in (SYMBOLIC, SizeText))
        if is_looked_up or has_text or (is_number and has_symbol):
            left, right = fix_symbols(left), fix_symbols(right)
        return COMPARISONS[name](left, right)

    def test(self, value: Any) -> Any:
        return fix_symbols(value) if isinstance(value, SizeText) else value

    def write(self, value: Any, conversion: str, form: str) -> Any:
        sizes = [*_find_sizes((value, form))] if self._is_symbolic else []
        shown = _replace(value, _hint_of) if sizes else value
        return _make_text(super().write(shown, conversion, form), sizes)

    def join(self, *parts: str) -> Any:
        return _make_text("".join(map(str.__str__, parts)), [*_find_sizes(parts)])

    def go_through(self, values: Iterable[Any]) -> Iterable[Any]:
        return fix_symbols(values) if isinstance(values, SizeText) else values

    def take_numbers(self, value: Any) -> Any:
        return fix_symbols(value)

    def match_kinds(self, value: Any) -> Any:
        for tensor in _find_tensors(value) if self._is_symbolic else ():
            isinstance(tensor, torch.LongTensor)  # a pattern asks in C, where the disguise of a run cannot take note
        return value

    def complete(self) -> None:
        self._note_caught("nothing", sys._getframe(1))

    def evaluate(self, text: Any) -> Any:
        return fix_symbols(text)

    def catch(self) -> None:
        self._note_caught(type(sys.exception()).__name__, sys._getframe(1))

    def take_caught(self) -> list[str]:
        """Return the errors that the model has caught since the last time, and where."""
        caught, self._caught = self._caught, []
        return caught

    def _note_caught(self, what: str, frame: FrameType) -> None:
        line = user_lines.line_of_frame(frame)
        self._caught.append(f"{what} at line {line.line if line else 0}")


def fix_symbols(value: Any) -> Any:
    """Return the value with each symbol as the number that it is, under the condition that it is that number."""
    return _replace(value, number_of)


def _find_sizes(values: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the symbols among these values, in what they contain, and in texts that were made of symbols."""
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, SYMBOLIC):
            yield value
        elif isinstance(value, SizeText):
            yield from value.sizes
        elif depth < _DEPTH and isinstance(value, tuple | list | dict):
            yield from _find_sizes(value, depth + 1)


def _hint_of(size: Any) -> Any:
    """Return the number that a symbol is where the run began."""
    return size.node.hint


def _replace(value: Any, number: Callable[[Any], Any]) -> Any:
    """Return the value with `number(symbol)` in the place of each symbol. A text becomes an ordinary one."""
    match value:
        case SizeText():
            for size in value.sizes:
                number(size)
            return str.__str__(value)
        case torch.Size():
            return torch.Size([_replace(one, number) for one in value])
        case tuple() | list() if any(True for _ in _find_sizes([value])) and type(value) in (tuple, list):
            return type(value)(_replace(one, number) for one in value)
        case dict():
            return {name: _replace(one, number) for name, one in value.items()}
    return number(value) if isinstance(value, SYMBOLIC) else value


def _find_tensors(value: Any, depth: int = _DEPTH) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, its items and its attributes."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for one in (*items, *getattr(value, "__dict__", {}).values()) if depth else ():
        yield from _find_tensors(one, depth - 1)


def _call_plainly(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], number: Callable[[Any], Any]) -> Any:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, SizeText):
        function = getattr(_replace(owner, number), function.__name__)
    return function(
        *(_replace(one, number) for one in args),
        **{k: _replace(one, number) for k, one in kwargs.items()},
    )


def _make_text(text: str, sizes: list[Any]) -> str:
    if not sizes:
        return text
    made = SizeText(text)
    made.sizes = tuple(sizes)
    return made


def _is_hashing(container: Any) -> bool:
    return isinstance(container, Mapping | set | frozenset)


def _writes_text(function: Any) -> bool:
    """Whether a function only makes a text of its arguments."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, str):
        return function.__name__ in ("format", "join")
    return is_any_of(function, _WRITES_TEXT)


def _takes_symbols(function: Any) -> bool:
    """Whether a function computes with symbols as it does with numbers, or shows them to a person."""
    if isinstance(function, partial):
        return _takes_symbols(function.func)
    if is_any_of(function, _TAKES_SYMBOLS) or isinstance(function, torch.nn.Module):
        return True
    if isinstance(function, type) and issubclass(function, BaseException):
        return True
    code = getattr(function, "__code__", None)
    if is_followed(code):
        return True
    owner = getattr(function, "__self__", None)
    if isinstance(owner, logging.Logger | logging.LoggerAdapter):
        return True
    if owner is not None and not isinstance(owner, ModuleType | type):
        is_stored = getattr(function, "__name__", "") in _STORING and isinstance(owner, list | dict)
        return is_stored or not (isinstance(owner, str) or _is_of_python(type(owner).__module__))
    if code is not None and "functools" in code.co_filename:
        return False
    module = getattr(function, "__module__", None) or ""
    return module in _ARITHMETIC or module == math.__name__ or not _is_of_python(module)


def _is_of_python(module: str) -> bool:
    """Whether a module is Python's own or numpy's."""
    name = module.partition(".")[0]
    return name in sys.stdlib_module_names or name in ("builtins", "numpy")
