"""Id checks: the numbers that operators read out of tensors only to refuse ids that are out of range."""

import torch

from tracehouse.introspection import script_graphs


def reads_extremes_for_checks_alone(artifact: torch.jit.ScriptModule, method: str) -> bool:
    """Whether the smallest and largest value of a tensor are read only by one_hot, to compare them with its classes.

    Without a number of classes, one_hot reads it out of the ids.
    """
    nodes = [*script_graphs.nodes(script_graphs.methods(artifact)[method].inlined_graph)]
    classes = [[*node.inputs()][1].toIValue() for node in nodes if node.kind() == "aten::one_hot"]
    return all(node.kind() != "aten::aminmax" for node in nodes) and all(
        isinstance(one, int) and one > 0 for one in classes
    )
