"""Numbers that a trace computes from sizes: torch computes them in float32, where Python has a float64."""

import torch

from tracehouse.introspection import script_graphs

# What reads a size, and what makes a tensor of a number.
_READS = {"aten::size", "aten::numel", "aten::dim", "aten::len", "prim::NumToTensor"}


def rounds_numbers_of_sizes(module: torch.jit.ScriptModule, method: str) -> bool:
    """Whether a traced method computes a number from sizes alone, such as `n ** -0.5`, with fewer digits than Python.

    That is as good where the number meets a float32, and is not where it meets a float64.
    """
    derived: set[str] = set()
    for node in script_graphs.nodes(script_graphs.methods(module)[method].inlined_graph):
        if node.kind() not in _READS and not _takes_only(node, derived):
            continue
        outputs = script_graphs.outputs(node)
        derived.update(value.debugName() for value in outputs)
        if any(_is_rounded_number(value.type()) for value in outputs):
            return True
    return False


def _takes_only(node: script_graphs.Node, derived: set[str]) -> bool:
    """Whether all that the node takes is derived from sizes, beside constants."""
    given = [value for value in script_graphs.inputs(node) if value.node().kind() != "prim::Constant"]
    return bool(given) and all(value.debugName() in derived for value in given)


def _is_rounded_number(kind: torch._C.Type) -> bool:
    """Whether it is a tensor of one number that is a float with fewer digits than a float64, or may be one."""
    if kind.kind() != "TensorType":
        return False
    return kind.sizes() in (None, []) and kind.scalarType() in (None, "Float", "Half", "BFloat16")
