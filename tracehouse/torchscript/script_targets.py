"""Script targets: submodules of a model and functions of its source that are scripted inside a trace.

They are found by the lines that they contain. They are scripted in a copy of the model, so that a trace of the copy
keeps their control flow.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

import torch
from pydantic import ValidationError

from tracehouse.introspection import user_lines
from tracehouse.spec.conversion import TARGETS_MAX, ScriptTarget

Compile = Callable[[Any], Any]


def find_targets(model: torch.nn.Module, wanted: Iterable[user_lines.Line | None]) -> list[ScriptTarget]:
    """Return the submodules and functions that contain the lines, each once.

    The list is empty if a line is unknown or in no target, if there are more than TARGETS_MAX targets, or if the name
    of one is not valid: a ModuleDict's key can be any text.
    """
    with suppress(ValidationError):
        return _find_targets(model, wanted)
    return []


def script_in_place(model: torch.nn.Module, parts: Sequence[ScriptTarget], compiled: Compile) -> torch.nn.Module:
    """Script the targets in this model and return it.

    Functions are replaced in the source's modules: the caller must put them back. Raises what `compiled` raises.
    """
    modules = {part.name: model.get_submodule(part.name) for part in parts if not part.is_function}
    scripted = {id(module): compiled(module) for module in modules.values()}  # a module with two names stays one module
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, scripted[id(module)])
    for part in parts:
        if part.is_function:
            _replace_function(part.name, compiled)
    return model


def _find_targets(model: torch.nn.Module, wanted: Iterable[user_lines.Line | None]) -> list[ScriptTarget]:
    parts: dict[ScriptTarget, None] = {}
    for line in wanted:
        here = [*_submodules_at(model, line), *_functions_at(line)] if line else []
        if not here:
            return []
        parts |= dict.fromkeys(here)
    return list(parts) if len(parts) <= TARGETS_MAX else []


def _submodules_at(model: torch.nn.Module, line: user_lines.Line) -> Iterator[ScriptTarget]:
    for name, module in model.named_modules(remove_duplicate=False):
        if name and any(_contains_line(function, line) for function in _methods(type(module))):
            yield ScriptTarget(name=name)


def _methods(kind: type) -> Iterator[FunctionType]:
    for base in kind.__mro__:
        if base is torch.nn.Module:
            return
        yield from (value for value in vars(base).values() if isinstance(value, FunctionType))


def _functions_at(line: user_lines.Line) -> Iterator[ScriptTarget]:
    for name, module, function in _functions():
        if function.__module__ == module and _contains_line(function, line):
            yield ScriptTarget(name=f"{module}.{name}", is_function=True)


def _functions() -> Iterator[tuple[str, str, FunctionType]]:
    """Yield name, module and function for each name of a function in the source's modules, imported ones too."""
    for module_name, module in user_lines.submitted_modules().items():
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType):
                yield name, module_name, value


def _replace_function(name: str, compiled: Compile) -> None:
    module, _, function_name = name.rpartition(".")
    function = getattr(sys.modules[module], function_name)
    scripted = compiled(function)
    for other_name, other_module, other in _functions():
        if other is function:
            setattr(sys.modules[other_module], other_name, scripted)


def _contains_line(function: FunctionType, line: user_lines.Line) -> bool:
    code = inspect.unwrap(function).__code__
    return user_lines.is_user(code.co_filename) and any(
        user_lines.line_at(code.co_filename, number) == line for number in _line_numbers(code)
    )


def _line_numbers(code: CodeType) -> set[int]:
    """Return the numbers of the lines that have instructions, also in functions inside it."""
    own = {number for _, _, number in code.co_lines() if number is not None}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return own.union(*map(_line_numbers, inner))
