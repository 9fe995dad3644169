"""Lowering: a method's graph in the form for torch.onnx: flat, with parameters and buffers among the inputs.

torch.jit._get_trace_graph makes such a graph by tracing once more. Here it is made from the existing trace, with a pass
of torch's own (torch._C._jit_pass_lower_graph).
"""

from typing import Any

import torch

from tracehouse.introspection import script_graphs


def lower(module: torch.jit.ScriptModule, method: str) -> script_graphs.Graph | None:
    """Return the method's flat graph, or None if it is scripted and torch cannot make it flat.

    The inputs that stand for parameters and buffers have their names.
    """
    try:
        return _lower_module(module, module._c, method)
    except RuntimeError:  # only tensors can become inputs, and a script may read other attributes
        return _lower_frozen(module, method)


def _lower_frozen(module: torch.jit.ScriptModule, method: str) -> script_graphs.Graph | None:
    """Return the flat graph of a script as torch.onnx makes it: all attributes but the parameters become constants."""
    try:
        return _lower_module(module, torch._C._freeze_module(module._c, [method], preserveParameters=True), method)
    except RuntimeError:  # the module is in train mode, or writes to its attributes
        return None


def _lower_module(module: torch.jit.ScriptModule, of: Any, method: str) -> script_graphs.Graph:
    graph, tensors = torch._C._jit_pass_lower_graph(of._get_method(method).graph, of)
    # The identities stay valid: torch keeps one Python object for a tensor as long as somebody refers to it.
    named = {id(tensor): (name, tensor) for name, tensor in [*module.named_buffers(), *module.named_parameters()]}
    inputs = list(graph.inputs())
    for value, tensor in zip(inputs[len(inputs) - len(tensors) :], tensors, strict=True):
        if id(tensor) in named:
            value.setDebugName(named[id(tensor)][0])
    return graph
