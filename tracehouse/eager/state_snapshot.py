"""State of a module: its attributes, parameters and buffers are marked, read and written by keys.

A key is the path of a submodule, and the name of one of its attributes, parameters or buffers.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import torch

from tracehouse.eager.state_marks import Marks, mark_value

_TENSORS = ("_parameters", "_buffers")
# The dicts of hooks that torch gives every module: half of its attributes, and nearly always empty.
_HOOKS = {
    name for name, value in vars(torch.nn.Module()).items() if value == {} and name not in (*_TENSORS, "_modules")
}
_take_hooks = itemgetter(*_HOOKS)


def mark(module: torch.nn.Module) -> Marks:
    """Return marks, which equal later ones as long as no attribute, parameter or buffer of the module changes."""
    marks: Marks = {}
    for name, part in module.named_modules():
        for key, value in _attributes_to_mark(part):
            if key in _TENSORS:
                for item, tensor in list(value.items()):
                    marks[name, item] = mark_value(tensor, 1)
            elif key == "_modules":
                marks[name, key] = _mark_parts(value)
            elif type(value) is not torch._C.ScriptMethod:  # torch adds it at the first use
                marks[name, key] = mark_value(value)
        if isinstance(part, torch.jit.ScriptModule):
            marks |= {(name, key): mark_value(value) for key, value in _compiled_attributes(part)}
    return marks


def _attributes_to_mark(part: torch.nn.Module) -> list[tuple[str, Any]]:
    """Return the attributes of a submodule, without dicts of hooks if these are all empty."""
    attributes = vars(part)
    try:
        has_hooks = any(_take_hooks(attributes))
    except KeyError:  # a class that leaves torch's own __init__ out
        has_hooks = True
    return [(key, value) for key, value in list(attributes.items()) if has_hooks or key not in _HOOKS]


def _mark_parts(parts: Mapping[str, Any]) -> Any:
    """Return the mark of a submodule's own submodules, each of which is marked by itself."""
    return [(name, mark_value(part) if isinstance(part, list | dict) else id(part)) for name, part in parts.items()]


def read(module: torch.nn.Module, key: tuple[str, str]) -> Any:
    """Return the value that a key of the marks has now, or None if it has none."""
    path, name = key
    part = _part(module, path)
    if isinstance(part, torch.jit.ScriptModule):
        return part._c.getattr(name)
    return next((there[name] for there in _attributes_of(part) if name in there), None)


def write(module: torch.nn.Module, key: tuple[str, str], value: Any) -> None:
    """Set the value that a key of the marks has, without calling the `__setattr__` of the submodule's class."""
    path, name = key
    part = _part(module, path)
    if isinstance(part, torch.jit.ScriptModule):
        part._c.setattr(name, value)
        return
    there = next((there for there in _attributes_of(part) if name in there), vars(part))
    is_parameter = there is part._parameters and isinstance(value, torch.Tensor)
    there[name] = torch.nn.Parameter(value, requires_grad=False) if is_parameter else value


def _part(module: torch.nn.Module, path: str) -> torch.nn.Module:
    """Return the submodule at the path. A script module has no get_submodule, so this searches all submodules."""
    parts: dict[str, torch.nn.Module] = dict(module.named_modules())
    return parts[path]


def _attributes_of(part: torch.nn.Module) -> list[dict[str, Any]]:
    return [part._parameters, part._buffers, vars(part)]


def _compiled_attributes(part: torch.jit.ScriptModule) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that a script module has in C++, which vars() does not show."""
    for key in part._concrete_type.get_attributes():
        yield key, part._c.getattr(key)
