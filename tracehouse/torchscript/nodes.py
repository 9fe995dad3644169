"""Nodes: what a printout says about each node of a graph."""

from typing import Any, Protocol

import torch

from tracehouse.artifact.manifest import GraphNode
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import tensor_constants
from tracehouse.torchscript.scopes import Place

_ATTRIBUTE_MAX_CHARACTERS = 120


class PlaceFinder(Protocol):
    """Finds the place of each node of a graph. Ask it for every node, in the graph's order."""

    def place(self, node: script_graphs.Node) -> Place:
        """Return the node's place."""
        ...


def describe_nodes(graph: script_graphs.Graph, where: PlaceFinder) -> list[GraphNode]:
    """Return a graph's nodes in the order of its text; the nodes of a block follow the node that has the block."""
    described: list[GraphNode] = []

    def add(node: script_graphs.Node, parent: int | None, block: int | None) -> None:
        index = len(described)
        described.append(_describe_node(node, where.place(node), parent, block))
        for number, nested in enumerate(script_graphs.blocks(node)):
            for each in (nested.paramNode(), *nested.nodes(), nested.returnNode()):
                add(each, index, number)

    for node in graph.nodes():
        add(node, None, None)
    return described


def _describe_node(node: script_graphs.Node, place: Place, parent: int | None, block: int | None) -> GraphNode:
    outputs = script_graphs.outputs(node)
    line = script_graphs.line_of(node) or place.called_at
    return GraphNode(
        operator=node.kind(),
        inputs=[value.debugName() for value in script_graphs.inputs(node)],
        outputs=[value.debugName() for value in outputs],
        types=[_type(value.type()) for value in outputs],
        attributes=_attributes(node),
        scope=place.scope,
        file=line.file if line else None,
        line=line.line if line else None,
        source=line.source if line else None,
        parent=parent,
        block=block,
    )


def _type(kind: Any) -> str:
    """Return a value's type: `Float(1, 3)` if the trace recorded the tensor's shape, else TorchScript's own text."""
    if kind.kind() != "TensorType" or (sizes := kind.sizes()) is None or (scalar := kind.scalarType()) is None:
        return str(kind)
    return f"{scalar}({', '.join(map(str, sizes))})"


def _attributes(node: script_graphs.Node) -> dict[str, str]:
    return {name: _shorten_value(_value(node, name)) for name in node.attributeNames()}


def _value(node: script_graphs.Node, name: str) -> Any:
    """Return the value of a node's attribute. A constant is read from its output: the graph keeps True as 1."""
    if node.kind() == "prim::Constant" and name == "value":
        return node.output().toIValue()
    kind = node.kindOf(name)
    # A graph or a type as an attribute is in the graph's text: its kind is enough here.
    return getattr(node, kind)(name) if kind in ("i", "f", "s", "t", "is", "fs", "ss", "ival") else kind


def _shorten_value(value: Any) -> str:
    match value:
        case torch.Tensor():
            text = tensor_constants.describe_tensor(value)
        case str():
            text = user_lines.clean_text(value)
        case _:
            text = str(value)
    return user_lines.shorten(text, _ATTRIBUTE_MAX_CHARACTERS)
