"""Marks: a value's mark equals a later mark of the value as long as no change was seen in the value's content.

The source's objects may raise at any access. Such an object is marked by its identity.
"""

import array
import ctypes
import functools
import io
import itertools
import mmap
import operator
import queue
import random
import sys
import threading
import warnings
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Sequence
from contextvars import ContextVar
from types import (
    BuiltinMethodType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch

from tracehouse.introspection import paths, user_lines

# These four are chosen, so that marks of a large model take little time and memory.
DEPTH = 4  # how many levels of nested containers are looked into
ARRAY_MAX_BYTES = 2**20  # a larger array or tensor is not copied
_ITEMS_MAX = 64  # how many items of a container are looked into
_PLAIN_ITEMS_MAX = 4096  # how many items without content of their own are looked at; each takes a microsecond
_PLAIN = (int, float, bool, str, type(None), torch.Tensor)
# They go through other iterators, and `__reduce__` shows these and what they have kept.
_COMPOSED_ITERATORS = (
    itertools.cycle, itertools.chain, itertools.islice, itertools.accumulate, itertools.repeat, zip, enumerate, map,
    filter, reversed,
)  # fmt: skip
_ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter({})), type(iter(range(0))), type(iter(set())),
    itertools.count, GeneratorType, ContextVar, *_COMPOSED_ITERATORS,
)  # fmt: skip
# Objects of the standard library that keep what is put into them, or count.
_LOOKED_INTO = (threading.local, threading.Semaphore, threading.Event, queue.Queue, UserDict, UserList)
# Modules of the standard library that not every process imports, with such objects.
_LOOKED_INTO_MODULES = ("multiprocessing.sharedctypes", "multiprocessing.shared_memory")
_BOUND = (BuiltinMethodType, MethodType, MethodWrapperType)
_OF_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_OWN_GENERATORS = {id(one) for one in (random._inst, np.random.mtrand._rand, torch.default_generator)}
_TENSORS = (torch.nn.Parameter, torch.Tensor)
_DICTS = (dict, OrderedDict)
_TRUE, _FALSE = (id(bool), 1), (id(bool), 0)
_EMPTY_DICT: Any = (0, [], [])

# The marks by their keys: the path of the module, class or function that has the value, and the value's name there.
Marks = dict[tuple[str, str], Any]


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether this is an ordinary tensor or parameter on the CPU, whose values can be copied and written."""
    kind = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    there = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_nested
    return kind and there and not tensor.is_inference()


def is_plain_object(value: Any) -> bool:
    """Whether this is an object of one of the source's classes, or a SimpleNamespace.

    A submodule does not count: a copy of the model has its own submodules, and state_snapshot marks them.
    """
    if isinstance(value, torch.nn.Module | type | FunctionType | ModuleType) or not hasattr(value, "__dict__"):
        return False
    return type(value) is SimpleNamespace or is_submitted(sys.modules.get(type(value).__module__))


def is_submitted(module: Any) -> bool:
    """Whether this is a module of the source. The value may be anything, as sys.modules may have anything in it."""
    if not issubclass(type(module), ModuleType):
        return False
    file = ModuleType.__getattribute__(module, "__dict__").get("__file__")
    return type(file) is str and paths.without_path(file) in user_lines.submitted


def mark_value(value: Any, depth: int = DEPTH) -> Any:
    """Return the value's mark, which looks into containers and objects `depth` levels deep."""
    try:
        # A module has hundreds of these, each call of a model marks them twice, and no match statement is as fast.
        kind = type(value)
        if value is None:
            return None
        if kind is bool:
            return _TRUE if value else _FALSE
        if kind is int or kind is str:
            return id(kind), value
        if kind in _TENSORS:
            return _mark_tensor(value)
        if kind in _DICTS and depth and not dict.__len__(value):
            return _EMPTY_DICT
        if depth and kind is tuple:
            return len(value), _mark_items(value, depth - 1)
        if depth and kind is set:
            return id(value), len(value)
        return _mark_plain(value, depth)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be looked at
        return id(value)


def _mark_plain(value: Any, depth: int) -> Any:
    match value:
        case None:
            return None
        case float():
            return id(type(value)), float.__repr__(value)  # NaN differs from itself
        case int():
            return id(type(value)), int.__index__(value)
        case str():
            return id(type(value)), str.__str__(value)
        case torch.device() | torch.dtype():
            return str(value)
    return _mark_holder(value, depth)


class _SameTensor:
    """A mark of one tensor. It keeps the tensor: else a new tensor could get its address and have the same version."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTensor) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def _mark_tensor(tensor: torch.Tensor) -> Any:
    return _SameTensor(tensor), None if tensor.is_inference() else tensor._version


def _mark_holder(value: Any, depth: int) -> Any:
    """Return the mark of a value that can contain other values, or whose content can change."""
    match value:
        case torch.Tensor():
            return _mark_tensor(value)
        case torch.ScriptObject():
            return type(value)  # each reading of the attribute returns another object; its content is not looked at
        case functools._lru_cache_wrapper():
            return value.cache_info().currsize
    if (content := _content_of_memory(value)) is not None:
        return id(value), content
    if type(value) in _ITERATORS or isinstance(value, GENERATORS):
        return id(value), _position_of(value)
    if type(value).__module__ == "sqlite3":
        return id(value), getattr(value, "total_changes", None)
    return _mark_container(value, depth) if depth else id(value)


def _content_of_memory(value: Any) -> Any:
    """Return the content of what gives its memory away, as an array; None for what does not, or has much of it."""
    match value:
        case np.ndarray() if value.nbytes <= ARRAY_MAX_BYTES:
            return value.tobytes()
        case bytearray() | array.array() | memoryview() if memoryview(value).nbytes <= ARRAY_MAX_BYTES:
            return bytes(value)
        case mmap.mmap() if len(value) <= ARRAY_MAX_BYTES:
            return bytes(value)
        case io.StringIO() | io.BytesIO():
            return value.tell(), value.getvalue()[-ARRAY_MAX_BYTES:]
    is_of_ctypes = isinstance(value, _OF_CTYPES) and ctypes.sizeof(value) <= ARRAY_MAX_BYTES
    return bytes(value) if is_of_ctypes else None


def _mark_container(value: Any, depth: int) -> Any:
    """Return the mark of a value by the marks of what it holds, at least one level deep."""
    match value:
        case dict():
            keys, values = list(dict.keys(value)), list(dict.values(value))
            return len(keys), _mark_keys(keys), _mark_items(values, depth - 1)
        case list() | tuple() | deque():
            items = list(value)
            return len(items), _mark_items(items, depth - 1)
        case set():
            return id(value), set.__len__(value)
        case functools.partial():
            return id(value), _mark_items((value.func, value.args, value.keywords), depth - 1)
    if isinstance(value, _BOUND):
        return id(value), _mark_owner(value.__self__, depth - 1)
    if depth > 1 and _is_looked_into(value):  # at the last level, the dicts of its attributes are not looked into
        slots = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
        attributes = vars(value) if hasattr(value, "__dict__") else {}
        return id(value), mark_value(attributes, depth - 1), mark_value(slots, depth - 1)
    return id(value)


def _mark_owner(owner: Any, depth: int) -> Any:
    """Return the mark of what a method is bound to: a method of the process's own generators changes with each draw."""
    if isinstance(owner, torch.nn.Module | type | ModuleType) or id(owner) in _OWN_GENERATORS:
        return id(owner)
    return mark_value(owner, depth)


def _position_of(value: Any) -> Any:
    """Return how far an iterator or a generator of random numbers has come."""
    match value:
        case itertools.count():
            return repr(value)
        case torch.Generator():
            return value.get_state().numpy().tobytes()
        case random.Random():
            return hash(value.getstate())
        case np.random.Generator():
            return repr(value.bit_generator.state)
        case np.random.RandomState():
            return repr(value.get_state())
        case GeneratorType():
            return _position_of_generator(value)
        case ContextVar():
            return mark_value(value.get(None), 1)
    if type(value) in _COMPOSED_ITERATORS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later
            return _positions_in(value.__reduce__()[1:])
    return operator.length_hint(value)


def _position_of_generator(generator: Any) -> Any:
    """Return at which instruction it stands, its variables, and how far that has come from which it yields."""
    frame, inner = generator.gi_frame, generator.gi_yieldfrom
    if frame is None:
        return None
    position = _position_of(inner) if isinstance(inner, _ITERATORS) else id(inner)
    return frame.f_lasti, mark_value(dict(frame.f_locals), 1), position


def _positions_in(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [*map(_positions_in, value)]
    return _position_of(value) if type(value) in _ITERATORS else mark_value(value, 1)


def _is_looked_into(value: Any) -> bool:
    """Whether this is an object of the source's, or of a library with which models are built."""
    if is_plain_object(value) or isinstance(value, _LOOKED_INTO) or type(value).__module__ in _LOOKED_INTO_MODULES:
        return True
    if isinstance(value, torch.nn.Module | type | FunctionType | ModuleType):
        return False
    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    return type(file) is str and user_lines.is_user(file) and not type(value).__module__.startswith("numpy")


def _slots(kind: type) -> list[str]:
    there = [vars(one).get("__slots__", ()) for one in kind.__mro__]
    names = [name for slots in there for name in ([slots] if isinstance(slots, str) else slots)]
    return [name for name in names if type(name) is str and not name.startswith("__")]


def _mark_keys(keys: list[Any]) -> Any:
    looked_at = keys[:_PLAIN_ITEMS_MAX]
    return tuple(looked_at) if all(type(key) is str for key in looked_at) else _mark_items(keys, 1)


def _mark_items(items: Sequence[Any], depth: int) -> list[Any]:
    marks = [mark_value(item, depth) for item in items[:_ITEMS_MAX]]
    if len(items) <= _ITEMS_MAX:
        return marks
    return marks + [mark_value(item, depth) for item in items[_ITEMS_MAX:_PLAIN_ITEMS_MAX] if type(item) in _PLAIN]
