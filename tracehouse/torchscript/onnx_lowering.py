"""Lowering: a method's graph as torch.onnx takes it, flat, its parameters and buffers among the inputs.

What torch.jit._get_trace_graph makes by tracing once more is made here of the trace that there is.
"""

from typing import Any

import torch

from tracehouse.introspection import script_graphs


def lower(module: torch.jit.ScriptModule, method: str) -> script_graphs.Graph | None:
    """The inputs that were parameters and buffers bear their names. None of a script that torch cannot make flat."""
    try:
        return _lower_module(module, module._c, method)
    except RuntimeError:  # torch only takes tensors for inputs, and a script reads other attributes as well
        return _lower_frozen(module, method)


def _lower_frozen(module: torch.jit.ScriptModule, method: str) -> script_graphs.Graph | None:
    """As torch.onnx does it with scripts: other attributes than parameters become constants."""
    try:
        return _lower_module(module, torch._C._freeze_module(module._c, [method], preserveParameters=True), method)
    except RuntimeError:  # it is in training mode, or writes what it holds
        return None


def _lower_module(module: torch.jit.ScriptModule, of: Any, method: str) -> script_graphs.Graph:
    graph, tensors = torch._C._jit_pass_lower_graph(of._get_method(method).graph, of)
    # torch has one Python object for a tensor as long as somebody holds it.
    held = {id(tensor): (name, tensor) for name, tensor in [*module.named_buffers(), *module.named_parameters()]}
    inputs = list(graph.inputs())
    for value, tensor in zip(inputs[len(inputs) - len(tensors) :], tensors, strict=True):
        if id(tensor) in held:
            value.setDebugName(held[id(tensor)][0])
    return graph
