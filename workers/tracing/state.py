"""State: what a call can leave behind, in the model and in what the source's modules and classes hold beside it.

All copies of a model share its globals, its class attributes and its default arguments, and a fresh copy is to find
them as the import left them, as in a new process. Blind to what lies deep inside objects, and to other packages.
"""

import functools
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from workers.tracing import lines

_DEPTH = 4  # of containers in containers
_ITEMS_MAX = 64  # of a container that are looked at for a change
_TENSOR_MAX_BYTES = 2**20  # of a larger one no copy is kept

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
            if isinstance(value, functools._lru_cache_wrapper)
        ]

    def marks(self) -> Marks:
        """Equal where nothing changed."""
        return {
            (name, key): _mark(value, _DEPTH)
            for name, owner in self._owners.items()
            for key, value in _attributes(owner).items()
        }

    def restore(self) -> None:
        for cache in self._caches:
            cache.cache_clear()
        for name, owner in self._owners.items():
            kept, now = self._attributes[name], _attributes(owner)
            for key in now.keys() - kept.keys():
                if not isinstance(now[key], ModuleType):  # an import in a function; Python would not do it again
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
            else:
                marks[name, key] = _mark(value, _DEPTH)
    return marks


def _owners() -> Iterator[tuple[str, Owner]]:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) not in lines.submitted:
            continue
        yield module.__name__, module
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if isinstance(value, type):
                yield f"{module.__name__}.{name}", value
                for method, function in list(vars(value).items()):
                    if isinstance(function, FunctionType):
                        yield f"{module.__name__}.{name}.{method}", function
            elif isinstance(value, FunctionType):
                yield f"{module.__name__}.{name}", value


def _attributes(owner: Owner) -> dict[str, Any]:
    """A function's are its default arguments and what it was given as attributes."""
    if isinstance(owner, FunctionType):
        names = owner.__code__.co_varnames[: owner.__code__.co_argcount]
        defaults = dict(zip(reversed(names), reversed(owner.__defaults__ or ()), strict=False))
        return {**defaults, **(owner.__kwdefaults__ or {}), **vars(owner)}
    return {key: value for key, value in list(vars(owner).items()) if not key.startswith("__")}


def _put(owner: Owner, key: str, value: Any) -> None:
    if not isinstance(owner, FunctionType) or key in vars(owner):
        setattr(owner, key, value)


def _remove(owner: Owner, key: str) -> None:
    if not isinstance(owner, FunctionType) or key in vars(owner):
        delattr(owner, key)


def _content(value: Any) -> Any:
    """A copy of what something holds that can be written into; None for all else."""
    match value:
        case torch.Tensor():
            small = value.layout is torch.strided and value.nbytes <= _TENSOR_MAX_BYTES and not value.is_inference()
            return value.detach().clone() if small else None
        case dict() | list() | set():
            return value.copy()
    return dict(vars(value)) if _is_submitted_object(value) else None


def _items(content: Any) -> list[Any]:
    match content:
        case dict():
            return list(content.values())
        case list() | set():
            return list(content)
    return []


def _refill(holder: Any, content: Any) -> None:
    match holder:
        case torch.Tensor():
            if not torch.equal(holder, content):
                with torch.no_grad():
                    holder.copy_(content)
        case list():
            holder[:] = content
        case dict() | set():
            holder.clear()
            holder.update(content)
        case _:
            vars(holder).clear()
            vars(holder).update(content)


def _is_submitted_object(value: Any) -> bool:
    """A plain object of the source's. A module of the model's is copied, and looked at, by itself."""
    kind = type(value)
    if isinstance(value, torch.nn.Module | type | FunctionType | ModuleType) or not hasattr(value, "__dict__"):
        return False
    return getattr(sys.modules.get(kind.__module__), "__file__", None) in lines.submitted


def _mark(value: Any, depth: int) -> Any:
    match value:
        case torch.Tensor():
            return id(value), None if value.is_inference() else value._version
        case bool() | int() | float() | str() | None:
            return repr(value)
        case functools._lru_cache_wrapper():
            return value.cache_info().currsize
    if not depth:
        return id(value)
    match value:
        case dict():
            first = list(value.items())[:_ITEMS_MAX]
            return len(value), [(str(key), _mark(item, depth - 1)) for key, item in first]
        case list() | tuple():
            return len(value), [_mark(item, depth - 1) for item in value[:_ITEMS_MAX]]
        case set():
            return id(value), len(value)
    return (id(value), _mark(vars(value), depth - 1)) if _is_submitted_object(value) else id(value)
