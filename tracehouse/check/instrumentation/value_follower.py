"""The value follower: it follows the values that one run reads through every operation of the submitted code.

What is computed from a value is tracked again: text, bytes, a list, an entry of a table. An object that has no tracked
form, such as a dict or a match of a regular expression, is remembered, and what is taken out of it is tracked.
"""

import io
import logging
import sys
import types
import warnings
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import islice
from types import MethodDescriptorType, ModuleType
from typing import Any

import numpy as np
import torch

from tracehouse.check.instrumentation.caught_errors import find_caught_error
from tracehouse.check.instrumentation.followed_code import COMPARISONS, Follower, is_any_of, is_followed
from tracehouse.check.instrumentation.taint import Taint
from tracehouse.check.instrumentation.tracked_values import TrackedNone, TrackedValue, ValueTracker, to_plain
from tracehouse.check.instrumentation.value_reads import ReadSite, find_reading_frame
from tracehouse.introspection import user_lines

_DEPTH = 3  # lists and dicts inside one another are searched so deep for tracked values
_ITEMS_MAX = 4096
_ENTRIES_MAX = 3  # so many other entries of a table are tried
_MESSAGES = {print, warnings.warn, warnings.warn_explicit}
_LAZY = (zip, enumerate, map, filter, reversed, types.GeneratorType)  # their items are tracked already
_WRITTEN = (list, dict, set, deque, bytearray, array, io.IOBase, np.ndarray)  # an argument of these may be written
_UNMARKED = (type, ModuleType, types.FunctionType, types.BuiltinFunctionType, torch.Tensor, torch.nn.Module,
             torch.dtype, torch.device, logging.Logger)  # fmt: skip
_PLAIN = (bool, int, float, str, bytes, list, tuple, type(None))
# They tell nothing of a value; the length of a list does only where the list itself is made of values.
_TELL_NOTHING = {isinstance, type, id, callable, slice, issubclass}
_BY_NAME = (hasattr, setattr)  # they tell something only of the name
_TELL_SIZES = ("shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides")
_ONLY_SHOW_A_NUMBER = {int, str, repr, hex, format, hash, min, max}
_CONVERSIONS = (int, float, complex)
# They call the function that they are given with each item, or with pairs of items, in an order that items decide.
_CALL_ONCE_FOR_EACH = (map, filter, sorted, min, max, reduce)
_RAISING = {
    f"{place}{name}" for place in ("", "i") for name in ("truediv", "floordiv", "mod", "pow", "lshift", "rshift")
}


class ValueFollower(Follower):
    """A follower of `followed_code` that tracks, for one run at a time, with the run's tracker."""

    def __init__(self) -> None:
        self._tracker = ValueTracker()
        self._taint = Taint([])
        self._running: list[Any] = []  # the code of the user's functions that are called from their own code
        self._marked: dict[int, tuple[Any, ReadSite]] = {}  # objects by identity, which are kept alive

    def begin(self, tracker: ValueTracker, taint: Taint) -> None:
        """Forget the last run; track with this tracker from now on, and taint the tensors that are made of values."""
        self._tracker = tracker
        self._taint = taint
        self._running = []
        self._marked = {}

    # What the rewritten code calls.

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if _is_followed_inside(function):
            return self._call_followed(function, args, kwargs)
        if function is type and len(args) == 1 and isinstance(args[0], TrackedValue):
            return type(to_plain(args[0]))
        if self._tells_nothing(function, args):
            return function(*args, **kwargs)
        if args and isinstance(args[0], torch.Tensor) and is_any_of(function, _CONVERSIONS):
            return getattr(args[0], f"__{function.__name__}__")()  # int itself would return a plain number
        count = self._tracker.uses
        read = self._find_read((function, getattr(function, "__self__", None), args, kwargs))
        if read is not None and (looked_up := self._look_up_by_call(read, function, args)) is not None:
            return looked_up[0]
        result = self._run(read, function, args, kwargs)
        read = read or self._find_read_since(count)
        if read is None or _is_message(function, kwargs):
            return result
        if read.kind == "data_ptr" and not is_any_of(function, _ONLY_SHOW_A_NUMBER):
            self._tracker.lose(read, "what is done with the tensor's memory cannot be seen")
        for written in (getattr(function, "__self__", None), *args, *kwargs.values()):
            if isinstance(written, _WRITTEN) and not isinstance(written, TrackedValue):
                self._mark(read, written)
        return self._pass_on(read, (self._pass_on(read, one) for one in result) if function is map else result)

    def _call_followed(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function of the user's, and note if it counts how often it calls itself."""
        code = getattr(function, "__code__", None)
        count, is_inside = self._tracker.uses, code is not None and code in self._running
        self._running.append(code)
        try:
            result = function(*args, **kwargs)
        finally:
            self._running.pop()
        is_number = isinstance(result, int | float | str) and not isinstance(result, TrackedValue)
        if is_inside and is_number and self._tracker.uses > count and self._tracker.last_read is not None:
            self._tracker.lose(self._tracker.last_read, "it decides how often a function calls itself")
        return result

    def _run(self, read: ReadSite | None, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function gives, or what it gives for another number if that is asked for."""
        if read is not None and not _is_message(function, kwargs):
            self._ask_for_error(read)
            if self._counts_calls(function, args, kwargs):
                self._tracker.lose(read, "it decides how often a library calls a function of the model")
        try:
            result = function(
                *map(_untrack_none, args), **{name: _untrack_none(value) for name, value in kwargs.items()}
            )
        except Exception:
            self._note_error(read)
            raise
        if read is not None and isinstance(result, torch.Tensor) and self._is_kept(read, (args, kwargs)):
            return function(*map(_move, args), **{name: _move(value) for name, value in kwargs.items()})
        return result

    @staticmethod
    def _counts_calls(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether a library calls a function of the user's as often as the values say."""
        given = any(_is_function(one) for one in (*args, *kwargs.values()))
        return given and not is_any_of(function, _CALL_ONCE_FOR_EACH)

    def _is_kept(self, read: ReadSite, values: Any) -> bool:
        """Whether an operator of torch is to get another number in the place of one that was computed from a value."""
        return self._find_number(values) and self._tracker.answer_here(read, "kept", False)

    def _find_number(self, values: Any) -> bool:
        items = values.values() if isinstance(values, Mapping) else values
        return any((isinstance(one, TrackedValue) and isinstance(one, int | float))
                   or (isinstance(one, tuple | list | dict) and self._find_number(one)) for one in items)  # fmt: skip

    def _tells_nothing(self, function: Any, args: tuple[Any, ...]) -> bool:
        if function is len and args and isinstance(args[0], list | tuple | np.ndarray):
            return not isinstance(args[0], TrackedValue) and id(args[0]) not in self._marked
        if is_any_of(function, _BY_NAME):
            return not isinstance(args[1], TrackedValue)
        return is_any_of(function, _TELL_NOTHING)

    def take_attribute(self, owner: Any, name: str) -> Any:
        value = getattr(owner, name)
        if callable(value) or name in _TELL_SIZES:
            return value
        if isinstance(owner, TrackedValue):
            return self._pass_on(owner.read, value)
        marked = self._marked.get(id(owner))
        return value if marked is None else self._pass_on(marked[1], value)

    def take_item(self, container: Any, key: Any) -> Any:
        read = self._find_read((_slice_ends(key),))
        if read is not None and isinstance(container, torch.Tensor):
            return container[_move(key) if self._is_kept(read, _slice_ends(key)) else key]
        if read is not None:
            return self._look_up(read, lambda: container[key], _entries_of(container))
        value = container[key]
        marked = self._marked.get(id(container))
        return value if marked is None else self._pass_on(marked[1], value)

    def put_item(self, value: Any, container: Any, key: Any) -> None:
        container[key] = value
        read = None if isinstance(container, torch.Tensor) else self._find_read((key,))
        if read is not None:
            self._mark(read, container)

    def operate(self, name: str, left: Any, right: Any) -> Any:
        read, count = self._find_read((left, right)), self._tracker.uses
        if read is None:
            result = super().operate(name, left, right)
            # `'%s' % tensor` reads the tensor's values.
            made_of = self._find_read_since(count) if isinstance(result, str | bytes) else None
            return result if made_of is None else self._pass_on(made_of, result)
        if isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
            moved = self._is_kept(read, (left, right))
            return super().operate(name, _move(left), _move(right)) if moved else super().operate(name, left, right)
        if name in _RAISING and not isinstance(left, str):
            self._ask_for_error(read)
        return self._pass_on(read, super().operate(name, left, right))

    def compare(self, name: str, left: Any, right: Any) -> Any:
        if name in ("Is", "IsNot"):
            return self._compare_identity(name, left, right)
        answer = COMPARISONS[name](left, right)
        if type(answer) is not bool:
            return answer
        asked = isinstance(left, TrackedValue) or isinstance(right, TrackedValue)
        if asked and name not in ("In", "NotIn"):
            return answer  # the tracked value was asked itself
        read = self._find_read((left, right))
        return answer if read is None else self._tracker.answer_here(read, name, answer)

    def test(self, value: Any) -> Any:
        marked = self._marked.get(id(value))
        if marked is None or isinstance(value, TrackedValue):
            return value
        truth = bool(value)
        answer = self._tracker.answer_here(marked[1], "test", truth)
        return value if answer is truth else answer

    def write(self, value: Any, conversion: str, form: str) -> Any:
        count = self._tracker.uses
        text = super().write(_untrack_none(value), conversion, form)
        read = self._find_read((value, form)) or self._find_read_since(count)
        return text if read is None else self._tracker.track(read, str.__str__(text))

    def join(self, *parts: str) -> Any:
        text = "".join(map(str.__str__, parts))
        read = self._find_read(parts)
        return text if read is None else self._tracker.track(read, text)

    def go_through(self, values: Iterable[Any]) -> Iterable[Any]:
        read = self._find_read((values,))
        if read is None or isinstance(values, (torch.Tensor, *_LAZY)):
            return values
        return (self._pass_on(read, value) for value in values)

    def repeat(self, values: Iterable[Any]) -> Iterable[Any]:
        read = self._find_read((values,))
        if read is not None and not isinstance(values, (torch.Tensor, list, tuple, *_LAZY)):
            self._tracker.lose(read, "it decides how many items a loop goes through")
        return self.go_through(values)

    def collect(self, collection: Any) -> Any:
        read = self._find_read((collection,))
        if read is not None:
            self._mark(read, collection)
        return collection

    def evaluate(self, text: Any) -> Any:
        read = self._find_read((text,))
        if read is not None:
            self._tracker.lose(read, "the model makes code of it, and runs that")
        return text

    # Where values go.

    def _find_read(self, values: Iterable[Any], depth: int = 0) -> ReadSite | None:
        """Return the read of the first of these values that is tracked, marked, or contains one that is."""
        for value in islice(values, _ITEMS_MAX):
            if isinstance(value, TrackedValue):
                return value.read
            if (marked := self._marked.get(id(value))) is not None:
                return marked[1]
            if depth < _DEPTH and (items := _items_of(value)) and (read := self._find_read(items, depth + 1)):
                return read
        return None

    def _find_read_since(self, uses: int) -> ReadSite | None:
        """Return the read that was used last, if one was since the tracker had counted so many uses."""
        return self._tracker.last_read if self._tracker.uses > uses else None

    def _pass_on(self, read: ReadSite, result: Any) -> Any:
        """Return what an operation on a tracked value gave so that it is followed."""
        if type(result) is bool:
            return self._tracker.answer_here(read, "call", result)
        if isinstance(result, torch.Tensor):
            self._taint.mark(result)
        if result is NotImplemented or isinstance(result, _UNMARKED):
            return result
        tracked = self._tracker.track(read, result)
        if tracked is result and not isinstance(result, TrackedValue):
            self._mark(read, result)
        return tracked

    def _mark(self, read: ReadSite, value: Any) -> None:
        if not isinstance(value, _UNMARKED):
            self._marked.setdefault(id(value), (value, read))

    # Questions that have no method of their own.

    def _compare_identity(self, name: str, left: Any, right: Any) -> Any:
        answer = COMPARISONS[name](_untrack_none(left), _untrack_none(right))
        read = next((one.read for one in (left, right) if isinstance(one, TrackedNone)), None)
        return answer if read is None else self._tracker.answer_here(read, name, answer)

    def _ask_for_error(self, read: ReadSite) -> None:
        """Raise the error that the user's code would catch here, if that is asked for."""
        caught = find_caught_error(find_reading_frame(sys._getframe(1)))
        if caught is not None and self._tracker.answer_here(read, "raises", False):
            raise caught("another value was read")

    def _note_error(self, read: ReadSite | None) -> None:
        """Note that an error followed from a tracked value and is caught: nothing can take its place."""
        if read is not None and find_caught_error(find_reading_frame(sys._getframe(1))) is not None:
            self._tracker.lose(read, "it led to an error that the model caught")

    def _look_up_by_call(self, read: ReadSite, function: Any, args: tuple[Any, ...]) -> tuple[Any] | None:
        """Return, in a tuple, what a function that looks something up gave; None for any other function."""
        owner = getattr(function, "__self__", None)
        if function is setattr:
            self._tracker.lose(read, "the model makes the name of an attribute of it")
        if isinstance(function, MethodDescriptorType) and args:  # dict.get(table, key)
            owner, args, function = args[0], args[1:], partial(function, args[0])
        if len(args) > 1 and function is getattr and isinstance(args[1], TrackedValue):
            return (self._look_up(read, partial(getattr, *args), [*_attributes_of(args[0]), *args[2:]]),)
        if not args or not isinstance(owner, Mapping | Sequence) or self._find_read(args[:1]) is None:
            return None
        match getattr(getattr(function, "func", function), "__name__", ""):
            case "get" | "pop" | "setdefault":
                default = args[1] if len(args) > 1 else None
                return (self._look_up(read, partial(function, *args), [*_entries_of(owner), default]),)
            case "__getitem__":
                return (self._look_up(read, partial(function, *args), _entries_of(owner)),)
        return None

    def _look_up(self, read: ReadSite, find: Callable[[], Any], entries: Iterable[Any]) -> Any:
        """Return what is found under a tracked key, or another of the entries if that is asked for."""
        try:
            value = find()
        except (LookupError, AttributeError):
            value = _MISSING
        else:
            self._ask_for_error(read)
        for place, other in enumerate(_choose_others(entries, value)):
            if self._tracker.answer_here(read, f"entry {place}", False):
                value = other
                break
        if value is _MISSING:
            return find()
        return self._tracker.track(read, value) if isinstance(value, _PLAIN) and type(value) is not bool else value


_MISSING = object()


def _attributes_of(owner: Any) -> list[Any]:
    """Return the values of an object's public attributes, and a module's parts."""
    members = [vars(owner), *(vars(owner).get(name, {}) for name in ("_modules", "_parameters", "_buffers"))]
    return [value for one in members for name, value in one.items() if not name.startswith("_") and name != "training"]


def _entries_of(container: Any) -> Iterable[Any]:
    """Return the values of a table or the items of a list."""
    values = getattr(container, "values", None)
    if callable(values):
        return islice(values(), _ITEMS_MAX)
    return islice(container, _ITEMS_MAX) if isinstance(container, Iterable) else ()


def _choose_others(entries: Iterable[Any], value: Any) -> list[Any]:
    """Return a few entries that are not this value."""
    others: list[Any] = []
    for entry in entries:
        if not any(_is_same(entry, one) for one in (value, *others)):
            others.append(entry)
        if len(others) == _ENTRIES_MAX:
            break
    return others


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    is_plain = isinstance(one, (int, float, str, bytes, np.generic))
    return type(one) is type(other) and is_plain and repr(one) == repr(other)


def _slice_ends(key: Any) -> Any:
    """Return the numbers of a key, which may stand in slices."""
    match key:
        case slice():
            return key.start, key.stop, key.step
        case tuple():
            return tuple(map(_slice_ends, key))
    return (key,)


def _move(value: Any) -> Any:
    """Return a value with other numbers in the place of those that are tracked."""
    match value:
        case TrackedValue() if isinstance(value, int):
            return int(value) + 1
        case TrackedValue() if isinstance(value, float):
            return float(value) * 1.5 + 0.125
        case slice():
            return slice(_move(value.start), _move(value.stop), _move(value.step))
        case list():
            return [*map(_move, value)]
        case tuple() if type(value) is tuple:
            return (*map(_move, value),)
    return _untrack_none(value)


def _items_of(value: Any) -> Iterable[Any]:
    """Return what a list, tuple, set or dict contains, or an object of the user's; nothing for any other object."""
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return value
    if type(value) is dict:
        return [*value, *value.values()]
    is_own = type(value).__module__ in user_lines.submitted.values() and not isinstance(value, torch.nn.Module)
    return [*getattr(value, "__dict__", {}).values()] if is_own else ()


def _untrack_none(value: Any) -> Any:
    """Return None for a tracked None, and any other value as it is."""
    return None if isinstance(value, TrackedNone) else value


def _is_followed_inside(function: Any) -> bool:
    """Whether a call runs the user's code, in which each operation is followed."""
    if isinstance(function, torch.nn.Module):
        return True
    if isinstance(function, partial):
        return _is_followed_inside(function.func)
    if isinstance(function, type):
        return is_followed(getattr(getattr(function, "__init__", None), "__code__", None))
    return is_followed(getattr(function, "__code__", None))


def _is_function(value: Any) -> bool:
    """Whether a value is a function of the user's."""
    return isinstance(value, types.FunctionType | types.MethodType) and is_followed(value.__code__)


def _is_message(function: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a function shows its arguments to a person, and does nothing else with them."""
    if kwargs.get("file") is not None:
        return _is_console(kwargs["file"])
    owner = getattr(function, "__self__", None)
    if isinstance(owner, logging.Logger | logging.LoggerAdapter) or _is_console(owner):
        return True
    return getattr(function, "__module__", None) == "logging" or is_any_of(function, _MESSAGES)


def _is_console(file: Any) -> bool:
    return file is sys.stdout or file is sys.stderr
