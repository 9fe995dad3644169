"""Graphs: a traced module's parts and methods, and the user's lines that their nodes come from."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from tracehouse.introspection import user_lines

# Neither a graph of torch's, nor its nodes, have a type in Python.
Graph = Any
Node = Any


def parts(module: torch.jit.ScriptModule) -> Iterator[tuple[str, torch.jit.ScriptModule]]:
    """The module itself under "", and each submodule of TorchScript under its dotted path."""
    for path, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            yield path, part


def join_path(path: str, name: str) -> str:
    """What a part has under that name; the model itself has the path ""."""
    return f"{path}.{name}" if path else name


def methods(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """The compiled methods by their names."""
    return {name: module._c._get_method(name) for name in module._c._method_names()}


def nodes(block: Any) -> Iterator[Node]:
    """The nodes of a graph in the order of its text, those of nested blocks after the node that has them."""
    for node in block.nodes():
        yield node
        for nested in node.blocks():
            yield from nodes(nested)


def functions(graph: Graph) -> list[Any]:
    """The compiled functions that a graph calls, and those that they call; an archive keeps its own to itself."""
    found: dict[str, Any] = {}
    graphs = [graph]
    for each in graphs:
        called = (str(next(node.inputs()).type()) for node in nodes(each) if node.kind() == "prim::CallFunction")
        for name in called:
            function = None if name in found else torch.jit._state._python_cu.find_function(name)
            if function is not None:
                found[name] = function
                graphs.append(function.graph)
    return [*found.values()]


def line_of(node: Node) -> user_lines.Line | None:
    return _line_of(node.sourceRange())


@lru_cache(maxsize=10_000)
def _line_of(source_range: str) -> user_lines.Line | None:
    """Neighbouring nodes share their stacks."""
    return user_lines.line_of_stack(source_range)
