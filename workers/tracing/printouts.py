"""Printouts: what the tracer made, as text and as nodes with the user's lines, per method and per submodule."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import orjson
import torch

from service.domain.artifact import GraphNode, Printout, PrintoutKind
from service.domain.printouts import PRINTOUT_MAX_BYTES, write
from service.domain.sizes import MIB
from service.sandbox.bounds import PRINTOUTS_MAX_BYTES
from workers.tracing import graphs, lines

# Of those that are kept whole: what is left of the bound is for what says that others are not.
_WHOLE_MAX_BYTES = PRINTOUTS_MAX_BYTES // 2
_LEFT_OUT = "[cut: the printouts of this artifact are over {limit} MiB]"
_CUT = "[cut: this printout is over {limit} MiB; {missing} more lines, and its nodes, are left out]\n"


def take(
    module: torch.jit.ScriptModule, max_bytes: int = _WHOLE_MAX_BYTES, each_max_bytes: int = PRINTOUT_MAX_BYTES
) -> bytes:
    """Every printout, the model's own first; one that goes over a limit is cut, and says so in its text."""
    return write(_fitting(_all(module), max_bytes, each_max_bytes))


def _fitting(printouts: Iterator[Printout], max_bytes: int, each_max_bytes: int) -> Iterator[Printout]:
    left = max_bytes
    for whole in printouts:
        printout = whole if _byte_size(whole) <= each_max_bytes else _cut(whole, each_max_bytes)
        if (byte_size := _byte_size(printout)) <= left:
            left -= byte_size
            yield printout
        else:
            yield _saying(whole, _LEFT_OUT.format(limit=max_bytes // MIB))


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


def _cut(printout: Printout, max_bytes: int) -> Printout:
    """Its first lines, and a last one that says how many are missing."""
    texts = printout.text.splitlines(keepends=True)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts))
    room = max_bytes - _byte_size(_saying(printout, note))
    kept = bisect_right(list(accumulate(len(orjson.dumps(text)) for text in texts)), room)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts) - kept)
    return _saying(printout, "".join([*texts[:kept], note]))


def _saying(printout: Printout, text: str) -> Printout:
    return Printout(kind=printout.kind, method=printout.method, submodule=printout.submodule, text=text)


def _byte_size(printout: Printout) -> int:
    return len(printout.model_dump_json().encode())
