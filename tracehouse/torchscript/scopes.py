"""Scopes: the submodule that a node belongs to, and the user's line that called it.

The tracer writes the submodule into each operator, but not into scripted nodes, and not into nodes that read weights.
For those, an inlined graph has only the chain of calls that they came from, such as `block(Block).1(Linear)`, where
each call has the last part of the called module's path. The whole path is in the graphs before inlining.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from tracehouse.introspection import script_graphs, user_lines

_STEP = re.compile(r"(?<![^.()])([^.()]++)\([^()]*\)")
# What such a chain calls a method of the module itself, and a function.
_SELF, _FUNCTION = "SELF", "UNKNOWN_INSTANCE"


class Place(NamedTuple):
    """A node's submodule, and the nearest call in the user's code, for a node that comes from a library."""

    scope: str
    called_at: user_lines.Line | None = None


@dataclass(frozen=True)
class _Call:
    """A call in a method's graph: its name in a chain of calls, what it calls, and the user's line."""

    name: str
    path: str
    method: str | None
    line: user_lines.Line | None


@dataclass
class _Frame:
    """A call that the walk is inside: its name, the place of its nodes, the calls in it, and how many it has passed."""

    name: str
    place: Place
    calls: list[_Call]
    past: int = 0


@dataclass
class Scopes:
    """The calls in the graphs of one module and its submodules; each graph is read once."""

    module: torch.jit.ScriptModule
    _parts: dict[str, torch.jit.ScriptModule] = field(init=False)
    _calls: dict[tuple[str, str], list[_Call]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = dict(script_graphs.parts(self.module))

    def calls(self, path: str, method: str | None) -> list[_Call]:
        """Return the calls of a method of the submodule at `path`, in the graph's order; none for a function."""
        if method is None:
            return []
        if (path, method) not in self._calls:
            part = self._parts.get(path)
            graph = script_graphs.methods(part).get(method) if part is not None else None
            self._calls[path, method] = [] if graph is None else _calls_in(graph.graph, path)
        return self._calls[path, method]


@dataclass(frozen=True)
class FixedPlace:
    """Finds places in a graph without inlined calls, where every node belongs to one submodule."""

    path: str

    def place(self, node: script_graphs.Node) -> Place:
        """Return the node's place."""
        return Place(path_of_scope(node.scopeName()) or self.path)


class InlinedWalk:
    """Finds places in one inlined graph. Ask it for every node, in the graph's order."""

    def __init__(self, scopes: Scopes, path: str, method: str) -> None:
        self._scopes = scopes
        self._frames = [_Frame("", Place(path), scopes.calls(path, method))]
        self._hierarchy = ""

    def place(self, node: script_graphs.Node) -> Place:
        """Return the node's place."""
        if scope := node.scopeName():
            return Place(path_of_scope(scope))
        hierarchy = node.getModuleHierarchy()
        if hierarchy == self._hierarchy:
            return self._frames[-1].place
        # Constants are pooled: a call's constant may stand before the call begins.
        begins = node.kind() != "prim::Constant"
        frames = self._enter(_STEP.findall(hierarchy), begins=begins)
        if begins:
            self._frames, self._hierarchy = frames, hierarchy
        return frames[-1].place

    def _enter(self, names: list[str], *, begins: bool) -> list[_Frame]:
        """Return the frames of a chain of calls; those that the walk is inside already are kept."""
        frames = self._frames[:1]
        for frame, name in zip(self._frames[1:], names, strict=False):
            if frame.name != name:
                break
            frames.append(frame)
        for name in names[len(frames) - 1 :]:
            frames.append(self._call(frames[-1], name, begins=begins))
        return frames

    def _call(self, caller: _Frame, name: str, *, begins: bool) -> _Frame:
        """Return the frame of the caller's next call of that name, else of an earlier one.

        If the caller has no such call, because it was optimised away, the frame has the caller's place.
        """
        ahead = [*range(caller.past, len(caller.calls)), *range(caller.past)]
        at = next((at for at in ahead if caller.calls[at].name == name), None)
        if at is None:
            return _Frame(name, caller.place, [])
        call = caller.calls[at]
        if begins:
            caller.past = at + 1
        place = Place(call.path, call.line or caller.place.called_at)
        return _Frame(name, place, self._scopes.calls(call.path, call.method))


def path_of_scope(name: str) -> str:
    """Return the submodule's path in a scope: `layer.0` for `__module.layer/__module.layer.0`."""
    return name.rpartition("/")[2].removeprefix("__module").removeprefix(".")


def _calls_in(graph: script_graphs.Graph, path: str) -> list[_Call]:
    modules = {value.debugName(): path for value in list(graph.inputs())[:1]}
    itself = next(iter(modules), None)
    calls = []
    for node in script_graphs.nodes(graph):
        match node.kind():
            case "prim::GetAttr":
                if (holder := modules.get(node.input().debugName())) is not None:
                    modules[node.output().debugName()] = script_graphs.join_path(holder, node.s("name"))
            case "prim::CallMethod":
                calls.append(_call_of_method(node, modules, itself, path))
            case "prim::CallFunction":
                calls.append(_Call(_FUNCTION, path, None, script_graphs.line_of(node)))
    return calls


def _call_of_method(node: Any, modules: dict[str, str], itself: str | None, path: str) -> _Call:
    called = node.inputsAt(0).debugName()
    to = modules.get(called)
    line = script_graphs.line_of(node)
    if to is None:
        return _Call(_FUNCTION, path, None, line)
    return _Call(_SELF if called == itself else to.rpartition(".")[2], to, node.s("name"), line)
