"""Printouts: what the tracer made, as text and as nodes with the user's lines, per method and per submodule."""

from collections.abc import Iterator
from typing import Any

import torch
from pydantic import TypeAdapter

from service.domain.artifact import GraphNode, Printout, PrintoutKind
from service.sandbox.bounds import PRINTOUTS_MAX_BYTES
from workers.tracing import graphs, lines

# Of those that are kept whole: what is left of the bound is for what says that others are not.
_WHOLE_MAX_BYTES = PRINTOUTS_MAX_BYTES // 2
_CUT = "[cut: the printouts of this artifact are over {limit} MiB]"

_printouts = TypeAdapter(list[Printout])


def take(module: torch.jit.ScriptModule, max_bytes: int = _WHOLE_MAX_BYTES) -> bytes:
    """Every printout as JSON, the model's own first; what goes over the limit says so in its text."""
    taken: list[bytes] = []
    left = max_bytes
    for printout in _all(module):
        whole = printout.model_dump_json().encode()
        if len(whole) <= left:
            left -= len(whole)
            taken.append(whole)
        else:
            taken.append(_without_text(printout, max_bytes).model_dump_json().encode())
    return b"[" + b",".join(taken) + b"]"


def read(data: bytes) -> list[Printout]:
    return _printouts.validate_json(data)


def _all(module: torch.jit.ScriptModule) -> Iterator[Printout]:
    for path, submodule in module.named_modules():
        if not isinstance(submodule, torch.jit.ScriptModule):
            continue
        for name, method in graphs.methods(submodule).items():
            graph = _of_graph("graph", name, path, method.graph)
            yield graph
            yield _inlined(graph, method.inlined_graph)
            yield Printout(kind="code", method=name, submodule=path, text=lines.without_paths(method.code))


def _inlined(graph: Printout, inlined: Any) -> Printout:
    """Most submodules call none: there is nothing to inline, and the nodes need not be read again."""
    if any(node.operator in ("prim::CallMethod", "prim::CallFunction") for node in graph.nodes):
        return _of_graph("inlined_graph", graph.method, graph.submodule, inlined)
    return graph.model_copy(update={"kind": "inlined_graph"})


def _of_graph(kind: PrintoutKind, method: str, submodule: str, graph: Any) -> Printout:
    return Printout(
        kind=kind,
        method=method,
        submodule=submodule,
        text=lines.without_paths(str(graph)),
        inputs=[value.debugName() for value in graph.inputs()],
        outputs=[value.debugName() for value in graph.outputs()],
        nodes=[_node(node) for node in graphs.nodes(graph)],
    )


def _node(node: graphs.Node) -> GraphNode:
    outputs = list(node.outputs())
    line = graphs.line_of(node)
    return GraphNode(
        operator=node.kind(),
        inputs=[value.debugName() for value in node.inputs()],
        outputs=[value.debugName() for value in outputs],
        types=[_type(value.type()) for value in outputs],
        scope=_scope(node.scopeName()),
        file=line.file if line else None,
        line=line.line if line else None,
        source=line.source if line else None,
    )


def _type(kind: Any) -> str:
    """`Float(1, 3)` where the trace knows the tensor, and TorchScript's own word where not."""
    if kind.kind() != "TensorType" or (sizes := kind.sizes()) is None or (scalar := kind.scalarType()) is None:
        return str(kind)
    return f"{scalar}({', '.join(map(str, sizes))})"


def _scope(name: str) -> str:
    """`__module.layer/__module.layer.0` → `layer.0`."""
    return name.rpartition("/")[2].removeprefix("__module").removeprefix(".")


def _without_text(printout: Printout, max_bytes: int) -> Printout:
    note = _CUT.format(limit=max_bytes // 2**20)
    return Printout(kind=printout.kind, method=printout.method, submodule=printout.submodule, text=note)
