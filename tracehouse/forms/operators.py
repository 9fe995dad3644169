"""What a graph says of one of its operators: its name, and what it is given."""

from collections.abc import Iterator
from typing import Any

import torch

# The end of a slice that has none.
TO_THE_END = 2**63 - 1


def name_of(node: torch.Node) -> str:
    """Return the operator's name without its namespace, and without the mark that it works in place."""
    name = node.kind().partition("::")[2]
    return name if name.startswith("_") else name.removesuffix("_")


def is_in_place(node: torch.Node) -> bool:
    """Whether the operator writes into the first tensor that it is given."""
    return node.kind().endswith("_") and not name_of(node).startswith("_")


def constants_of(node: torch.Node) -> dict[str, Any]:
    """Return the constants that the operator is given, None among them, by the names of its arguments."""
    return {name: value.toIValue() for name, value in _arguments(node) if value.node().kind() == "prim::Constant"}


def held_values(module: torch.jit.ScriptModule) -> dict[str, Any]:
    """Return what the archive holds of the graph of `forward`, by the values' names: constants, weights, lists of them.

    Weights are these in all calls only if nothing writes into them.
    """
    graph = module.inlined_graph
    held: dict[str, Any] = {next(graph.inputs()).debugName(): module}
    for node in graph.nodes():
        given = [one.debugName() for one in node.inputs()]
        if node.kind() == "prim::Constant":
            held[node.output().debugName()] = node.output().toIValue()
        elif node.kind() == "prim::GetAttr":
            held[node.output().debugName()] = getattr(held[given[0]], node.s("name"))
        elif node.kind() == "prim::ListConstruct" and all(one in held for one in given):
            held[node.output().debugName()] = [held[one] for one in given]
    return held


def known_of(node: torch.Node, held: dict[str, Any]) -> dict[str, Any]:
    """Return what the operator is given of these values, by the names of its arguments."""
    return {name: held[value.debugName()] for name, value in _arguments(node) if value.debugName() in held}


def _arguments(node: torch.Node) -> Iterator[tuple[str, torch.Value]]:
    if node.kind().startswith("prim::"):  # most of these have no schema
        return
    for argument, value in zip(torch._C.parse_schema(node.schema()).arguments, node.inputs(), strict=True):
        yield argument.name, value
