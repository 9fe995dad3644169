"""What a graph says of one of its operators: its name, and the constants that it is given."""

from typing import Any

import torch


def name_of(node: torch.Node) -> str:
    """Return the operator's name without its namespace, and without the mark that it works in place."""
    name = node.kind().partition("::")[2]
    return name if name.startswith("_") else name.removesuffix("_")


def constants_of(node: torch.Node) -> dict[str, Any]:
    """Return the constants that the operator is given, None among them, by the names of its arguments."""
    pairs = zip(torch._C.parse_schema(node.schema()).arguments, node.inputs(), strict=True)
    return {one.name: value.toIValue() for one, value in pairs if value.node().kind() == "prim::Constant"}
