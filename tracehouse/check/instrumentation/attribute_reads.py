"""Attribute reads: which attributes of a model a call reads before it writes them, and on which line.

The module also finds the line that draws a random number outside torch.
"""

import ast
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch

from tracehouse.introspection import script_graphs, source_trees, user_lines

_NORMS = {torch.nn.modules.batchnorm.__file__, torch.nn.modules.instancenorm.__file__}

AttributeKey = tuple[str, str]  # the path of a submodule and the name of an attribute
_Lines = dict[AttributeKey, user_lines.Line | None]


def add_running_statistics(changed: Set[AttributeKey]) -> set[AttributeKey]:
    """Return these keys, and the running statistics of each norm whose count of batches is among them.

    The kernel writes the statistics without counting it as a write to these tensors.
    """
    counted = [path for path, name in changed if name == "num_batches_tracked"]
    return {*changed, *((path, name) for path in counted for name in ("running_mean", "running_var"))}


@contextmanager
def record_reads(module: torch.nn.Module, watched: Set[AttributeKey]) -> Iterator[_Lines]:
    """Collect, while the body runs, which of these attributes are read before they are written, with the lines.

    Submodules get a subclass with a `__getattribute__` of ours for so long. An attribute that cannot be watched counts
    as read. The line is None if it is not known.
    """
    lines: _Lines = {}
    classes: list[tuple[torch.nn.Module, type]] = []
    submodules = dict(module.named_modules())
    for path in {path for path, _ in watched}:
        submodule = submodules[path]
        names = {name for other, name in watched if other == path}
        if isinstance(submodule, torch.jit.ScriptModule):
            nodes = {name: _find_compiled_reads(name, submodules.values()) for name in names}
            lines |= {(path, name): _find_line(reads) for name, reads in nodes.items() if reads}
            continue
        try:
            own = type(submodule)
            submodule.__class__ = _make_watching_class(own, path, names, lines)
            classes.append((submodule, own))
        except Exception:  # noqa: BLE001 - submitted code: a metaclass, slots or __init_subclass__ refuses
            lines |= {(path, name): None for name in names}
    try:
        yield lines
    finally:
        for submodule, own in classes:
            submodule.__class__ = own


def find_line_that_names(name: str) -> user_lines.Line | None:
    """Return the first line in a submitted function that reads a global or an attribute of this name; else None."""
    for file in sorted(user_lines.submitted):
        every = ast.walk(source_trees.parse_file(file))
        functions = [node for node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        nodes = [node for function in functions for node in ast.walk(function)]
        lines = [node.lineno for node in nodes if isinstance(node, ast.expr | ast.AugAssign) and _is_read(node, name)]
        if lines:
            return user_lines.line_at(file, min(lines))
    return None


def _is_read(node: ast.AST, name: str) -> bool:
    match node:
        case ast.AugAssign(target=target):
            return name in (getattr(target, "id", None), getattr(target, "attr", None))
        case ast.Name(id=read, ctx=ast.Load()) | ast.Attribute(attr=read, ctx=ast.Load()):
            return read == name
    return False


def find_line_that_draws(call: Callable[[], Any]) -> user_lines.Line | None:
    """Return the user's first line on which the call makes Python or NumPy draw a random number; None if none does.

    The states of both generators are compared before each line (sys.settrace). Raises whatever the call raises.
    """
    last: tuple[str, int] | None = None
    drawing: tuple[str, int] | None = None
    before = _read_generators()

    def step(frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal last, drawing
        if drawing is not None or not user_lines.is_user(frame.f_code.co_filename):
            return None
        if last is not None and _read_generators() != before:
            drawing = last
        last = frame.f_code.co_filename, frame.f_lineno
        return step

    tracing = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(tracing)
    return user_lines.line_at(*drawing) if drawing is not None else None


def _read_generators() -> Any:
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return random.getstate(), position, np.asarray(keys).tobytes()


def _find_compiled_reads(name: str, submodules: Iterable[torch.nn.Module]) -> list[script_graphs.Node]:
    """Return the nodes of compiled code that read an attribute of this name. When they run cannot be watched."""
    compiled = [submodule for submodule in submodules if isinstance(submodule, torch.jit.ScriptModule)]
    nodes = [
        node
        for submodule in compiled
        for method in script_graphs.methods(submodule).values()
        for node in script_graphs.nodes(method.graph)
    ]
    return [node for node in nodes if node.kind() == "prim::GetAttr" and node.s("name") == name]


def _find_line(reads: Iterable[script_graphs.Node]) -> user_lines.Line | None:
    """Return the line of the first node that uses such a read; the node that reads has no line itself."""
    users = (use.user for node in reads for use in node.output().uses())
    return next((line for node in users if (line := script_graphs.line_of(node)) is not None), None)


class _SubclassHookStopper:
    """The first base of the watching class, so that the __init_subclass__ of the model's class does not run for it."""

    __slots__ = ("__dict__", "__weakref__")  # as a module has them: Python only changes to a class of the same layout

    def __init_subclass__(cls, **_: Any) -> None:
        pass


def _is_only_updated(own: Any, submodule: Any, reader: FrameType) -> bool:
    """Whether a norm of torch's reads its statistics only to update them. In train mode it uses the batch's."""
    return reader.f_code.co_filename in _NORMS and own.__getattribute__(submodule, "training") is True


def _make_watching_class(own: Any, path: str, names: Set[str], lines: _Lines) -> type:
    """Return a subclass of a submodule's class that adds to `lines` each read of a name that was not written before."""
    written: set[str] = set()
    writing = 0

    def get(self: Any, name: str) -> Any:
        if name in names and not writing and name not in written and (path, name) not in lines:
            reader = sys._getframe(1)
            if not _is_only_updated(own, self, reader):
                lines[path, name] = user_lines.line_of_frame(reader)
        return own.__getattribute__(self, name)

    def put(self: Any, name: str, value: Any) -> None:
        nonlocal writing
        writing += 1  # torch reads the attribute to see whether it is a buffer
        try:
            own.__setattr__(self, name, value)
        finally:
            writing -= 1
        written.add(name)

    namespace = {"__getattribute__": get, "__setattr__": put, "__module__": own.__module__}
    # The metaclass is not called: one that keeps a register may refuse a name that it knows.
    watching_class: type = type.__new__(type(own), own.__name__, (_SubclassHookStopper, own), namespace)
    return watching_class
