"""Watching a call: which attributes of a model are read in it before it has written them, and which line draws."""

import ast
import linecache
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch

from tracehouse.introspection import script_graphs, user_lines

_NORMS = {torch.nn.modules.batchnorm.__file__, torch.nn.modules.instancenorm.__file__}

AttributeKey = tuple[str, str]  # a submodule's path and an attribute's name


def add_running_statistics(changed: Set[AttributeKey]) -> set[AttributeKey]:
    """A batch norm's kernel writes its running statistics without counting it as a write: they change as its count."""
    counted = [path for path, name in changed if name == "num_batches_tracked"]
    return {*changed, *((path, name) for path in counted for name in ("running_mean", "running_var"))}


@contextmanager
def record_reads(
    module: torch.nn.Module, watched: Set[AttributeKey]
) -> Iterator[dict[AttributeKey, user_lines.Line | None]]:
    """Those that are read, each with the line; one that cannot be watched counts as read."""
    seen: dict[AttributeKey, user_lines.Line | None] = {}
    kinds: list[tuple[torch.nn.Module, type]] = []
    parts = dict(module.named_modules())
    for path in {path for path, _ in watched}:
        part = parts[path]
        names = {name for other, name in watched if other == path}
        if isinstance(part, torch.jit.ScriptModule):
            seen |= {
                (path, name): _line_of(read) for name in names if (read := _reads_by_compiled(name, parts.values()))
            }
            continue
        try:
            kind = type(part)
            part.__class__ = _watching(kind, path, names, seen)
            kinds.append((part, kind))
        except Exception:  # noqa: BLE001 - submitted code: a metaclass, slots or __init_subclass__ refuses
            seen |= {(path, name): None for name in names}
    try:
        yield seen
    finally:
        for part, kind in kinds:
            part.__class__ = kind


def find_line_that_names(name: str) -> user_lines.Line | None:
    """The first line within a submitted function that reads what is called so: a global, or an attribute of a class."""
    for file in sorted(user_lines.submitted):
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError, RecursionError):
            continue
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        every = [part for function in functions for part in ast.walk(function)]
        found = [part.lineno for part in every if isinstance(part, ast.expr | ast.AugAssign) and _names(part, name)]
        if found:
            return user_lines.line_at(file, min(found))
    return None


def _names(node: ast.AST, name: str) -> bool:
    match node:
        case ast.AugAssign(target=target):
            return name in (getattr(target, "id", None), getattr(target, "attr", None))
        case ast.Name(id=called, ctx=ast.Load()) | ast.Attribute(attr=called, ctx=ast.Load()):
            return called == name
    return False


def find_line_that_draws(call: Callable[[], Any]) -> user_lines.Line | None:
    """The user's line on which the call has Python or NumPy draw a random number first."""
    place: tuple[str, int] | None = None
    drew: tuple[str, int] | None = None
    before = _drawn()

    def step(frame: FrameType, event: str, given: Any) -> Any:  # noqa: ARG001
        nonlocal place, drew
        if drew is not None or not user_lines.is_user(frame.f_code.co_filename):
            return None
        if place is not None and _drawn() != before:
            drew = place
        place = frame.f_code.co_filename, frame.f_lineno
        return step

    tracing = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(tracing)
    return user_lines.line_at(*drew) if drew is not None else None


def _drawn() -> Any:
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return random.getstate(), position, np.asarray(keys).tobytes()


def _reads_by_compiled(name: str, parts: Iterable[torch.nn.Module]) -> list[script_graphs.Node]:
    """Where compiled code reads an attribute of that name at all: when it does, cannot be watched."""
    compiled = [part for part in parts if isinstance(part, torch.jit.ScriptModule)]
    found = [
        node
        for part in compiled
        for method in script_graphs.methods(part).values()
        for node in script_graphs.nodes(method.graph)
    ]
    return [node for node in found if node.kind() == "prim::GetAttr" and node.s("name") == name]


def _line_of(reads: Iterable[script_graphs.Node]) -> user_lines.Line | None:
    """A read has none itself: that of what is done with it."""
    users = (use.user for node in reads for use in node.output().uses())
    return next((line for node in users if (line := script_graphs.line_of(node)) is not None), None)


class _Quiet:
    """Before the model's class, so that an __init_subclass__ of the source's is not told of the class that watches."""

    __slots__ = ("__dict__", "__weakref__")  # as a module has them: the class of an object is kept to its layout

    def __init_subclass__(cls, **_: Any) -> None:
        pass


def _only_updates(kind: Any, part: Any, reader: FrameType) -> bool:
    """In train mode torch's own norms hand their running statistics over to be updated, and go by the batch's."""
    return reader.f_code.co_filename in _NORMS and kind.__getattribute__(part, "training") is True


def _watching(kind: Any, path: str, names: Set[str], seen: dict[AttributeKey, user_lines.Line | None]) -> type:
    written: set[str] = set()
    writing = 0

    def get(self: Any, name: str) -> Any:
        if name in names and not writing and name not in written and (path, name) not in seen:
            reader = sys._getframe(1)
            if not _only_updates(kind, self, reader):
                seen[path, name] = user_lines.of_frame(reader)
        return kind.__getattribute__(self, name)

    def put(self: Any, name: str, value: Any) -> None:
        nonlocal writing
        writing += 1  # torch looks whether a buffer is there already
        try:
            kind.__setattr__(self, name, value)
        finally:
            writing -= 1
        written.add(name)

    namespace = {"__getattribute__": get, "__setattr__": put, "__module__": kind.__module__}
    # Not by calling the metaclass: one that keeps a register may refuse a name that it knows.
    watching: type = type.__new__(type(kind), kind.__name__, (_Quiet, kind), namespace)
    return watching
