"""Graphs of a compiled module: its submodules and methods, and the user's lines that their nodes come from."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from tracehouse.introspection import user_lines

# torch's graphs and nodes have no types in Python.
Graph = Any
Node = Any
Value = Any

# Kinds of nodes that are frequent and never have blocks, beside torch's operators.
_WITHOUT_BLOCKS = {
    "prim::CallFunction",
    "prim::CallMethod",
    "prim::Constant",
    "prim::GetAttr",
    "prim::ListConstruct",
    "prim::ListUnpack",
    "prim::NumToTensor",
    "prim::TupleConstruct",
    "prim::TupleUnpack",
}


def parts(module: torch.jit.ScriptModule) -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """Yield the module itself with the path "", then each compiled submodule with its dotted path."""
    for path, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield path, part


def join_path(path: str, name: str) -> str:
    """Return the dotted path of what the submodule at `path` calls `name`; the model itself has the path ""."""
    return f"{path}.{name}" if path else name


def methods(module: Any) -> dict[str, Any]:
    """Return the compiled methods of a ScriptModule, or of what else has a module of C++, by their names."""
    return {name: module._c._get_method(name) for name in module._c._method_names()}


def nodes(block: Any) -> Iterator[Node]:
    """Yield a graph's nodes in the order of its text; the nodes of a nested block follow the node that has it."""
    for node in block.nodes():
        yield node
        for nested in blocks(node):
            yield from nodes(nested)


def inputs(node: Node) -> list[Value]:
    """Return a node's inputs. Its own `inputs()` takes ten times as long: torch ends an iterator by a C++ exception."""
    return [node.inputsAt(place) for place in range(node.inputsSize())]


def outputs(node: Node) -> list[Value]:
    """Return a node's outputs, as `inputs` does its inputs."""
    return [node.outputsAt(place) for place in range(node.outputsSize())]


def blocks(node: Node) -> list[Any]:
    """Return a node's blocks. Most kinds of nodes have none, and are not asked: their iterator would be as slow."""
    kind = node.kind()
    return [] if kind.startswith("aten::") or kind in _WITHOUT_BLOCKS else [*node.blocks()]


def functions(graph: Graph) -> list[Any]:
    """Return the compiled functions that a graph calls, directly or through others.

    The functions of a loaded archive are missing, because torch does not find them by name.
    """
    found: dict[str, Any] = {}
    graphs = [graph]
    for each in graphs:
        names = (str(node.inputsAt(0).type()) for node in nodes(each) if node.kind() == "prim::CallFunction")
        for name in names:
            function = None if name in found else torch.jit._state._python_cu.find_function(name)
            if function is not None:
                found[name] = function
                graphs.append(function.graph)
    return [*found.values()]


def line_of(node: Node) -> user_lines.Line | None:
    """Return the user's line that a node comes from, or None if there is none."""
    return _line_of(node.sourceRange())


@lru_cache(maxsize=10_000)
def _line_of(source_range: str) -> user_lines.Line | None:
    """Return the user's line in a node's stack; it is cached, because neighbouring nodes share their stacks."""
    return user_lines.line_of_stack(source_range)
