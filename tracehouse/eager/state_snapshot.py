"""State: what a call can leave behind, in the model and in what the source's modules and classes hold beside it.

All copies of a model share its globals, its class attributes and its default arguments, and a fresh copy is to find
them as the import left them, as in a new process. Blind to what lies deep inside objects, and to other packages.

The source's objects may refuse anything that is asked of them. Such a one is told by its identity, and left as it is.
"""

import functools
import itertools
import operator
import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import CellType, FunctionType, GeneratorType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from tracehouse.introspection import user_lines

_DEPTH = 4  # of containers in containers
_ITEMS_MAX = 64  # of a container that are looked into for a change
_PLAIN_ITEMS_MAX = 4096  # of those that hold nothing: to look at one takes a microsecond
_PLAIN = (int, float, bool, str, type(None), torch.Tensor)
_WITH_A_PLACE: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter({})), type(iter(range(0))), type(iter(set())),
    itertools.count, GeneratorType, ContextVar,
)  # fmt: skip
_GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_ARRAY_MAX_BYTES = 2**20  # of a larger one, or a larger tensor, no copy is kept

Owner = ModuleType | type | FunctionType
Marks = dict[tuple[str, str], Any]


class Shared:
    """What all copies of a model share, as it was when this was made."""

    def __init__(self) -> None:
        self._owners = dict(_owners())
        self._attributes = {name: _attributes(owner) for name, owner in self._owners.items()}
        self._contents: dict[int, tuple[Any, Any]] = {}  # by identity: a holder, and a copy of what it held
        for attributes in self._attributes.values():
            for value in attributes.values():
                self._keep(value, _DEPTH)
        self._caches = [
            value
            for attributes in self._attributes.values()
            for value in attributes.values()
            if type(value) is functools._lru_cache_wrapper
        ]

    def marks(self) -> Marks:
        """Equal where nothing changed."""
        return {
            (name, key): _mark(value, _DEPTH)
            for name, owner in self._owners.items()
            for key, value in _attributes(owner).items()
        }

    def held(self, key: tuple[str, str]) -> Any:
        """What one of them has now, under the names that marks tell it by."""
        owner, name = key
        return _attributes(self._owners[owner]).get(name)

    def put(self, key: tuple[str, str], value: Any) -> None:
        """Until it is restored."""
        owner, name = key
        _put(self._owners[owner], name, value)

    def restore(self) -> None:
        for cache in self._caches:
            cache.cache_clear()
        for name, owner in self._owners.items():
            kept, now = self._attributes[name], _attributes(owner)
            for key in now.keys() - kept.keys():
                if not issubclass(type(now[key]), ModuleType):  # an import in a function; Python would not do it again
                    _remove(owner, key)
            for key, value in kept.items():
                if now.get(key) is not value:
                    _put(owner, key, value)
        for holder, content in self._contents.values():
            _refill(holder, content)

    def _keep(self, value: Any, depth: int) -> None:
        content = _content(value)
        if content is None or not depth or id(value) in self._contents:
            return
        self._contents[id(value)] = value, content
        for item in _items(content):
            self._keep(item, depth - 1)


def of_module(module: torch.nn.Module) -> Marks:
    """Equal where no attribute, parameter or buffer of the module changed."""
    marks: Marks = {}
    for name, part in module.named_modules():
        for key, value in list(vars(part).items()):
            if key in ("_parameters", "_buffers"):
                marks |= {(name, item): _mark(tensor, 1) for item, tensor in list(value.items())}
            elif type(value) is not torch._C.ScriptMethod:  # kept there when it is first asked for
                marks[name, key] = _mark(value, _DEPTH)
        if isinstance(part, torch.jit.ScriptModule):
            marks |= {(name, key): _mark(value, _DEPTH) for key, value in _compiled_attributes(part)}
    return marks


def held(module: torch.nn.Module, key: tuple[str, str]) -> Any:
    """What a part of the module has, under the names that marks tell it by."""
    path, name = key
    part = _part(module, path)
    if isinstance(part, torch.jit.ScriptModule):
        return part._c.getattr(name)
    return next((there[name] for there in _attributes_of(part) if name in there), None)


def put(module: torch.nn.Module, key: tuple[str, str], value: Any) -> None:
    """In the place of what is there, past whatever the part's class does when it is set."""
    path, name = key
    part = _part(module, path)
    if isinstance(part, torch.jit.ScriptModule):
        part._c.setattr(name, value)
        return
    there = next((there for there in _attributes_of(part) if name in there), vars(part))
    is_parameter = there is part._parameters and isinstance(value, torch.Tensor)
    there[name] = torch.nn.Parameter(value, requires_grad=False) if is_parameter else value


def _part(module: torch.nn.Module, path: str) -> torch.nn.Module:
    """A script module has no get_submodule."""
    parts: dict[str, torch.nn.Module] = dict(module.named_modules())
    return parts[path]


def _attributes_of(part: torch.nn.Module) -> list[dict[str, Any]]:
    return [part._parameters, part._buffers, vars(part)]


def _compiled_attributes(part: torch.jit.ScriptModule) -> Iterator[tuple[str, Any]]:
    """They are in C++, and vars() does not show them."""
    for key in part._concrete_type.get_attributes():
        yield key, part._c.getattr(key)


def _owners() -> Iterator[tuple[str, Owner]]:
    seen: set[int] = set()
    for name in list(user_lines.submitted.values()):
        module = sys.modules.get(name)
        if module is not None and _is_submitted(module):
            yield module.__name__, module
            yield from _inner(module.__name__, module, module.__name__, seen)


def _inner(name: str, owner: ModuleType | type, module: str, seen: set[int]) -> Iterator[tuple[str, Owner]]:
    """The classes and functions in a module or a class, and the functions that those are made of."""
    for key, value in list(vars(owner).items()):
        if issubclass(type(value), type):
            if id(value) not in seen and _module_name(value) == module:
                seen.add(id(value))
                yield f"{name}.{key}", value
                yield from _inner(f"{name}.{key}", value, module, seen)
        else:
            yield from _functions(f"{name}.{key}", value, seen)


def _module_name(kind: type) -> str | None:
    found = type.__getattribute__(kind, "__dict__").get("__module__")
    return found if type(found) is str else None


def _functions(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, FunctionType]]:
    match value if type(value) in (FunctionType, staticmethod, classmethod, property) else None:
        case staticmethod() | classmethod():
            yield from _functions(name, value.__func__, seen)
        case property():
            for part in ("fget", "fset", "fdel"):
                yield from _functions(f"{name}.{part}", getattr(value, part), seen)
        case FunctionType():
            if id(value) not in seen and value.__code__.co_filename in user_lines.submitted:
                seen.add(id(value))
                yield name, value
                for key, inner in _in_cells(value).items():
                    yield from _functions(f"{name}.{key}", inner, seen)


def _attributes(owner: Owner) -> dict[str, Any]:
    """A function's are its default arguments, what it closes over and what it was given as attributes."""
    if isinstance(owner, FunctionType):
        names = owner.__code__.co_varnames[: owner.__code__.co_argcount]
        defaults = dict(zip(reversed(names), reversed(owner.__defaults__ or ()), strict=False))
        return {**defaults, **(owner.__kwdefaults__ or {}), **_in_cells(owner), **vars(owner)}
    return {key: value for key, value in list(vars(owner).items()) if not (key.startswith("__") and key.endswith("__"))}


def _in_cells(function: FunctionType) -> dict[str, Any]:
    there = {}
    for name, cell in _cells(function).items():
        with suppress(ValueError):  # it is empty
            there[name] = cell.cell_contents
    return there


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _put(owner: Owner, key: str, value: Any) -> None:
    with suppress(Exception):  # submitted code: its class may refuse
        match owner:
            case FunctionType() if key in vars(owner):
                setattr(owner, key, value)
            case FunctionType() if key in _cells(owner):
                _cells(owner)[key].cell_contents = value
            case type():
                type.__setattr__(owner, key, value)  # its metaclass may refuse, as Enum's does
            case ModuleType():
                ModuleType.__setattr__(owner, key, value)


def _remove(owner: Owner, key: str) -> None:
    with suppress(Exception):  # submitted code: its class may refuse
        match owner:
            case FunctionType() if key in vars(owner):
                delattr(owner, key)
            case FunctionType() if key in _cells(owner):
                del _cells(owner)[key].cell_contents
            case type():
                type.__delattr__(owner, key)
            case ModuleType():
                ModuleType.__delattr__(owner, key)


def _content(value: Any) -> Any:
    """A copy of what something holds that can be written into; None for all else."""
    try:
        return _copied(value)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be looked at
        return None


def _copied(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return value.detach().clone() if _is_plain(value) and value.nbytes <= _ARRAY_MAX_BYTES else None
        case np.ndarray():
            return np.array(value) if value.nbytes <= _ARRAY_MAX_BYTES else None
        case bytearray():
            return bytes(value)
        case dict():
            return dict(dict.items(value))
        case list():
            return list(list.__iter__(value))
        case deque():
            return list(deque.__iter__(value))
        case set():
            return set.copy(value)
    return dict(vars(value)) if _is_plain_object(value) else None


def _items(content: Any) -> list[Any]:
    match content:
        case dict():
            return list(content.values())
        case list() | set():
            return list(content)
    return []


def _refill(holder: Any, content: Any) -> None:
    with suppress(Exception):  # submitted code: what cannot be written into stays as it is
        match holder:
            case torch.Tensor():
                if not torch.equal(holder, content):
                    with torch.no_grad():
                        holder.copy_(content)
            case np.ndarray():
                if holder.tobytes() != content.tobytes():
                    holder[...] = content
            case bytearray():
                holder[:] = content
            case OrderedDict():  # which keeps an order beside the dict
                _refill_dict(OrderedDict, holder, content)
            case dict():
                _refill_dict(dict, holder, content)
            case list():
                list.__setitem__(holder, slice(None), content)
            case deque():
                deque.clear(holder)
                deque.extend(holder, content)
            case set():
                set.clear(holder)
                set.update(holder, content)
            case _:
                _refill_dict(dict, vars(holder), content)


def _refill_dict(base: type[dict[Any, Any]], holder: dict[Any, Any], content: dict[Any, Any]) -> None:
    base.clear(holder)
    for key, value in content.items():
        base.__setitem__(holder, key, value)


def _is_plain(tensor: torch.Tensor) -> bool:
    kind = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    there = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_nested
    return kind and there and not tensor.is_inference()


def _is_plain_object(value: Any) -> bool:
    """An object of the source's, or a namespace. A module of the model's is copied, and looked at, by itself."""
    if isinstance(value, torch.nn.Module | type | FunctionType | ModuleType) or not hasattr(value, "__dict__"):
        return False
    return type(value) is SimpleNamespace or _is_submitted(sys.modules.get(type(value).__module__))


def _is_submitted(module: Any) -> bool:
    """Anything may stand in sys.modules."""
    if not issubclass(type(module), ModuleType):
        return False
    file = ModuleType.__getattribute__(module, "__dict__").get("__file__")
    return type(file) is str and file in user_lines.submitted


def _mark(value: Any, depth: int) -> Any:
    try:
        return _looked_at(value, depth)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be looked at
        return id(value)


def _looked_at(value: Any, depth: int) -> Any:
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
    return _held(value, depth)


@dataclass(frozen=True, eq=False)
class _Same:
    """A tensor, known by itself. It is kept: the next one may get its address, and the same version."""

    tensor: torch.Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def _held(value: Any, depth: int) -> Any:
    match value:
        case torch.Tensor():
            return _Same(value), None if value.is_inference() else value._version
        case torch.ScriptObject():
            return type(value)  # each time it is asked for it is another one; what it holds is not looked at
        case functools._lru_cache_wrapper():
            return value.cache_info().currsize
        case np.ndarray() if value.nbytes <= _ARRAY_MAX_BYTES:
            return id(value), value.tobytes()
        case bytearray() if len(value) <= _ARRAY_MAX_BYTES:
            return id(value), bytes(value)
    if type(value) in _WITH_A_PLACE or isinstance(value, _GENERATORS):
        return id(value), _place_of(value)
    if not depth:
        return id(value)
    match value:
        case dict():
            keys, held = list(dict.keys(value)), list(dict.values(value))
            return len(keys), _marks_of(keys, 1), _marks_of(held, depth - 1)
        case list() | tuple() | deque():
            items = list(value)
            return len(items), _marks_of(items, depth - 1)
        case set():
            return id(value), set.__len__(value)
    if _is_of_a_user(value):
        slots = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
        return id(value), _mark(vars(value) if hasattr(value, "__dict__") else {}, depth - 1), _mark(slots, depth - 1)
    return id(value)


def _place_of(value: Any) -> Any:
    """How far something has come that gives one thing after another."""
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
            return None if value.gi_frame is None else value.gi_frame.f_lasti
        case ContextVar():
            return _mark(value.get(None), 1)
    return operator.length_hint(value)


def _is_of_a_user(value: Any) -> bool:
    """A plain object, or one of a library that a model may be built with: it is looked at, and not put back."""
    if _is_plain_object(value) or isinstance(value, threading.local):
        return True
    if isinstance(value, torch.nn.Module | type | FunctionType | ModuleType):
        return False
    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    return type(file) is str and user_lines.is_user(file) and not type(value).__module__.startswith("numpy")


def _slots(kind: type) -> list[str]:
    there = [vars(one).get("__slots__", ()) for one in kind.__mro__]
    names = [name for slots in there for name in ([slots] if isinstance(slots, str) else slots)]
    return [name for name in names if type(name) is str and not name.startswith("__")]


def _marks_of(items: list[Any], depth: int) -> list[Any]:
    looked_at = enumerate(items[:_PLAIN_ITEMS_MAX])
    return [_mark(item, depth) for place, item in looked_at if place < _ITEMS_MAX or type(item) in _PLAIN]
