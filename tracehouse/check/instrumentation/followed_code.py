"""Followed code: the submitted functions, while each of their operations passes through a follower.

A value that was read out of a tensor, or a size that is a symbol, can leave through any operation of Python's: as text,
as the key of a table, as an index. A subclass of int does not see most of them; the rewritten code sees all.
"""

import builtins
import gc
import linecache
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tracehouse.check.instrumentation.rewritten_code import FOLLOWER_NAME, rewrite
from tracehouse.introspection import paths, user_lines

_DEEPER = 3  # so many times as many frames: between two of the user's there are those of the follower


class _SetAside:
    """The functions that `set_objects_aside` found: the garbage collector no longer lists them.

    They are sorted by their files when one is asked for, which a model of torch's own modules alone never does.
    """

    def __init__(self) -> None:
        self._functions: list[FunctionType] = []
        self._by_file: dict[str, list[FunctionType]] = {}

    @property
    def is_filled(self) -> bool:
        return bool(self._functions)

    def fill(self) -> None:
        self._functions = [one for one in gc.get_objects() if type(one) is FunctionType]

    def clear(self) -> None:
        self._functions.clear()
        self._by_file.clear()

    def of(self, files: Iterable[str]) -> list[FunctionType]:
        """Return those that these files define."""
        if not self._by_file:
            for function in self._functions:
                self._by_file.setdefault(function.__code__.co_filename, []).append(function)
        return [function for file in files for function in self._by_file.get(file, ())]


_set_aside = _SetAside()


def _is_in(item: Any, container: Any) -> bool:
    """Whether an item is in a container: `operator.contains` takes them in the other order."""
    return item in container


def _is_not_in(item: Any, container: Any) -> bool:
    """Whether an item is not in a container."""
    return item not in container


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge, "Is": operator.is_, "IsNot": operator.is_not, "In": _is_in, "NotIn": _is_not_in,
}  # fmt: skip
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"": lambda value: value, "s": str, "r": repr, "a": ascii}


class Follower:
    """What the rewritten code calls in the place of each operation; this one only does what the code says."""

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def take_attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def take_item(self, container: Any, key: Any) -> Any:
        return container[key]

    def put_item(self, value: Any, container: Any, key: Any) -> None:
        container[key] = value

    def make_slice(self, start: Any, stop: Any, step: Any) -> slice:
        return slice(start, stop, step)

    def operate(self, name: str, left: Any, right: Any) -> Any:
        return getattr(operator, name)(left, right)

    def compare(self, name: str, left: Any, right: Any) -> Any:
        return COMPARISONS[name](left, right)

    def test(self, value: Any) -> Any:
        """Return a value whose truth is what the code goes by."""
        return value

    def write(self, value: Any, conversion: str, form: str) -> Any:
        """Return what one pair of braces of an f-string writes."""
        return format(_CONVERSIONS[conversion](value), form)

    def join(self, *parts: str) -> Any:
        """Return the text of an f-string."""
        return "".join(parts)

    def go_through(self, values: Iterable[Any]) -> Iterable[Any]:
        """Return what a loop goes through."""
        return values

    def repeat(self, values: Iterable[Any]) -> Iterable[Any]:
        """Return what a loop goes through that may count how often it does."""
        return self.go_through(values)

    def collect(self, collection: Any) -> Any:
        """Return a set or a dict that the code has made."""
        return collection

    def evaluate(self, text: Any) -> Any:
        """Return a text that is going to be run as code."""
        return text

    def catch(self) -> None:
        """Take note that an `except` has caught an error."""

    def complete(self) -> None:
        """Take note that the body of a `suppress` has come to its end."""

    def take_numbers(self, value: Any) -> Any:
        """Return what is matched against a pattern that asks for a kind of number."""
        return value

    def match_kinds(self, value: Any) -> Any:
        """Return what is matched against a pattern that asks for a kind of object."""
        return value


@contextmanager
def follow_code(follower: Follower) -> Iterator[None]:
    """In the body, the operations of the submitted functions pass through the follower."""
    files, modules = _find_modules()
    codes = {file: rewrite(file, "".join(linecache.getlines(file))) for file in files}
    own = {
        function: function.__code__
        for function in _find_functions([file for file, rewritten in codes.items() if rewritten], modules)
        if function.__code__ in codes[function.__code__.co_filename]
    }
    deepest = sys.getrecursionlimit()
    try:
        for function, code in own.items():
            function.__code__ = codes[code.co_filename][code]
        sys.setrecursionlimit(_DEEPER * deepest)
        with pass_through(follower):
            yield
    finally:
        sys.setrecursionlimit(deepest)
        for function, code in own.items():
            function.__code__ = code


def followed_texts() -> Iterator[str]:
    """Yield the texts of the files whose functions `follow_code` rewrites."""
    for file in _find_modules()[0]:
        yield "".join(linecache.getlines(file))


@contextmanager
def set_objects_aside() -> Iterator[None]:
    """In the body, `follow_code` is quick also in a process that has many objects: those that exist now are looked
    through once, and the garbage collector leaves them alone. If the process had frozen objects, they all stay so.
    Inside another body of this kind there is nothing left to do."""
    if _set_aside.is_filled:
        yield
        return
    was_frozen = gc.get_freeze_count() > 0
    if was_frozen:
        gc.collect()  # so that no garbage stays for good
        gc.unfreeze()
    try:
        _set_aside.fill()
        gc.freeze()
        yield
    finally:
        _set_aside.clear()
        if not was_frozen:
            gc.unfreeze()


@contextmanager
def pass_through(follower: Follower) -> Iterator[None]:
    """In the body, the operations of code that is followed already pass through this follower."""
    # A function that the body of `follow_code` has made may live on, and calls the one that is left here.
    before = getattr(builtins, FOLLOWER_NAME, Follower())
    setattr(builtins, FOLLOWER_NAME, follower)
    try:
        yield
    finally:
        setattr(builtins, FOLLOWER_NAME, before)


def is_any_of(value: Any, others: Iterable[Any]) -> bool:
    """Whether a value is one of these objects. Submitted code may call what cannot be hashed, or is equal to all."""
    return any(value is other for other in others)


def is_followed(code: CodeType | None) -> bool:
    """Whether the code is rewritten, so that what happens inside is followed there."""
    return code is not None and FOLLOWER_NAME in code.co_names


def _find_functions(files: Collection[str], modules: Iterable[ModuleType]) -> list[FunctionType]:
    """Return the functions that these files, of these modules, define."""
    if not files:
        return []
    older = _set_aside.of(files)
    return older + [
        one for one in _list_objects(modules) if type(one) is FunctionType and one.__code__.co_filename in files
    ]


def _list_objects(modules: Iterable[ModuleType]) -> list[Any]:
    """Return the objects that the garbage collector knows, these modules' too if the model has called `gc.freeze`."""
    objects = gc.get_objects()
    if _set_aside.is_filled or not {*map(id, modules)}.difference(map(id, objects)):
        return objects
    gc.unfreeze()
    return gc.get_objects()


def _find_modules() -> tuple[set[str], list[ModuleType]]:
    """Return the files of the submitted modules, and of the user's own modules that they import; and these modules."""
    modules = [*user_lines.submitted_modules().values()]
    files = {*user_lines.submitted}
    for importing in modules:
        for module in filter(None, map(_find_module, [*vars(importing).values()])):
            file = vars(module).get("__file__")
            if file and file not in files and user_lines.is_user(file) and not paths.SITE_PACKAGES.match(file):
                files.add(file)
                modules.append(module)
    return files, modules


def _find_module(value: Any) -> ModuleType | None:
    """Return a module that is this value, or in which this function or class was defined."""
    if isinstance(value, FunctionType | type):
        value = sys.modules.get(str(value.__module__))
    return value if isinstance(value, ModuleType) else None
