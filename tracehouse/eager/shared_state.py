"""Shared state: what the source's modules, classes and functions hold, and all copies of a model share.

These are globals, class attributes, default arguments and closures. A fresh copy must find them as the import left
them, as in a new process. Values deep inside objects, and state of other packages, are not seen.

The source's objects may raise at any access. Such an object is marked by its identity, and left as it is.
"""

import array
import builtins
import functools
import io
import sys
from collections import OrderedDict, UserDict, UserList, deque
from collections.abc import Iterator
from contextlib import suppress
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from tracehouse.eager.state_marks import (
    ARRAY_MAX_BYTES,
    DEPTH,
    Marks,
    is_plain,
    is_plain_object,
    is_submitted,
    mark_value,
)
from tracehouse.introspection import user_lines

Owner = ModuleType | type | FunctionType


class SharedState:
    """What all copies of a model share, as it was when this object was made."""

    def __init__(self) -> None:
        self._owners = dict(_owners())
        self._attributes = {name: _attributes(owner) for name, owner in self._owners.items()}
        self._contents: dict[int, tuple[Any, Any]] = {}  # by identity: a holder, and a copy of its content
        self._namespaces: set[int] | None = None
        for attributes in self._attributes.values():
            for value in attributes.values():
                self._copy_content(value, DEPTH)
        self._caches = [
            value
            for attributes in self._attributes.values()
            for value in attributes.values()
            if type(value) is functools._lru_cache_wrapper
        ]

    def marks(self) -> Marks:
        """Return marks, which equal later ones as long as nothing changes."""
        return {
            (name, key): mark_value(value)
            for name, owner in self._owners.items()
            for key, value in _attributes(owner).items()
        }

    def read(self, key: tuple[str, str]) -> Any:
        """Return the value that a key of the marks has now, or None if it has none."""
        owner, name = key
        return _attributes(self._owners[owner]).get(name)

    def write(self, key: tuple[str, str], value: Any) -> None:
        """Set the value that a key of the marks has. `restore` undoes it."""
        owner, name = key
        _put(self._owners[owner], name, value)

    def restore(self) -> None:
        """Set everything back to what it was when this object was made."""
        for cache in self._caches:
            cache.cache_clear()
        for name, owner in self._owners.items():
            before, now = self._attributes[name], _attributes(owner)
            for key in now.keys() - before.keys():
                # A module that a function imported stays: Python would not import it again.
                if not issubclass(type(now[key]), ModuleType):
                    _remove(owner, key)
            for key, value in before.items():
                if now.get(key) is not value:
                    _put(owner, key, value)
        for holder, content in self._contents.values():
            _refill(holder, content)

    def _copy_content(self, value: Any, depth: int) -> None:
        if not depth or id(value) in self._contents or self._is_namespace(value):
            return
        content = _content(value)
        if content is None:
            return
        self._contents[id(value)] = value, content
        for item in _items(content):
            self._copy_content(item, depth - 1)

    def _is_namespace(self, value: Any) -> bool:
        if type(value) is not dict:
            return False
        if value is vars(builtins):  # each module has it
            return True
        if self._namespaces is None:  # they are found when one may be there: each module's page is copied for that
            self._namespaces = _namespaces()
        return id(value) in self._namespaces


def _namespaces() -> set[int]:
    """Return the identities of the dicts that belong to Python: those of modules, and that of all modules.

    The source may hold one: `exec` puts Python's own names into the dict that it gets.
    """
    modules: list[Any] = [*sys.modules.values()]  # the source may have put anything there
    dicts = [ModuleType.__getattribute__(one, "__dict__") for one in modules if issubclass(type(one), ModuleType)]
    return {id(one) for one in (sys.modules, *dicts)}


def _owners() -> Iterator[tuple[str, Owner]]:
    """Yield the source's modules, classes and functions under their dotted names."""
    seen: set[int] = set()
    for module in user_lines.submitted_modules().values():
        if is_submitted(module):
            yield module.__name__, module
            yield from _owners_in(module.__name__, module, module.__name__, seen)


def _owners_in(name: str, owner: ModuleType | type, module: str, seen: set[int]) -> Iterator[tuple[str, Owner]]:
    """Yield the classes and functions in a module or a class, and the functions that these are made of."""
    for key, value in list(vars(owner).items()):
        if issubclass(type(value), type):
            if id(value) not in seen and _module_name(value) == module:
                seen.add(id(value))
                yield f"{name}.{key}", value
                yield from _owners_in(f"{name}.{key}", value, module, seen)
        else:
            yield from _functions(f"{name}.{key}", value, seen)


def _module_name(kind: type) -> str | None:
    name = type.__getattribute__(kind, "__dict__").get("__module__")
    return name if type(name) is str else None


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
                for key, inner in _closed_over(value).items():
                    yield from _functions(f"{name}.{key}", inner, seen)


def _attributes(owner: Owner) -> dict[str, Any]:
    """Return what an owner holds by name: a function its default arguments, closed-over values and attributes."""
    if isinstance(owner, FunctionType):
        return {**_defaults(owner), **_closed_over(owner), **vars(owner)}
    return {key: value for key, value in list(vars(owner).items()) if not (key.startswith("__") and key.endswith("__"))}


def _defaults(function: FunctionType) -> dict[str, Any]:
    return {**_positional_defaults(function), **(function.__kwdefaults__ or {})}


def _positional_defaults(function: FunctionType) -> dict[str, Any]:
    """Return the default values of positional arguments by name, the last argument first."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))


def _closed_over(function: FunctionType) -> dict[str, Any]:
    values = {}
    for name, cell in _cells(function).items():
        with suppress(ValueError):  # the cell is empty
            values[name] = cell.cell_contents
    return values


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _put(owner: Owner, key: str, value: Any) -> None:
    with suppress(Exception):  # submitted code: its class may refuse
        match owner:
            case FunctionType() if key not in vars(owner) and key in _cells(owner):
                _cells(owner)[key].cell_contents = value
            case FunctionType() if key not in vars(owner) and key in _defaults(owner):
                _put_default(owner, key, value)
            case FunctionType():
                setattr(owner, key, value)
            case type():
                type.__setattr__(owner, key, value)  # its metaclass may refuse, as Enum's does
            case ModuleType():
                ModuleType.__setattr__(owner, key, value)


def _put_default(function: FunctionType, name: str, value: Any) -> None:
    if name in (function.__kwdefaults__ or {}):
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), name: value}
        return
    defaults = {one: value if one == name else default for one, default in _positional_defaults(function).items()}
    function.__defaults__ = tuple(reversed(defaults.values()))


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
    """Return a copy of the content of a value that can be written into; None for any other value."""
    try:
        return _copy_of_content(value)
    except Exception:  # noqa: BLE001 - submitted code: it refuses to be looked at
        return None


def _copy_of_content(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return value.detach().clone() if is_plain(value) and value.nbytes <= ARRAY_MAX_BYTES else None
        case np.ndarray():
            return np.array(value) if value.nbytes <= ARRAY_MAX_BYTES else None
        case bytearray():
            return bytes(value)
        case array.array():
            return value[:]
        case io.StringIO() | io.BytesIO():
            return value.getvalue(), value.tell()
        case UserDict() | UserList():
            return dict(vars(value))
        case dict():
            return dict(dict.items(value))
        case list():
            return list(list.__iter__(value))
        case deque():
            return list(deque.__iter__(value))
        case set():
            return set.copy(value)
    return dict(vars(value)) if is_plain_object(value) else None


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
            case bytearray() | array.array():
                holder[:] = content
            case io.StringIO() | io.BytesIO():
                text, position = content
                holder.seek(0)
                holder.truncate()
                holder.write(text)
                holder.seek(position)
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
