"""Printouts: what the tracer made, as text and as nodes with the user's lines, per method and per submodule."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import orjson
import torch

from tracehouse.artifact.file_limits import PRINTOUTS_MAX_BYTES
from tracehouse.artifact.manifest import GraphKind, Printout
from tracehouse.artifact.printouts import PRINTOUT_MAX_BYTES, encode, write_encoded
from tracehouse.byte_units import MIB
from tracehouse.introspection import paths, script_graphs
from tracehouse.introspection.addresses import without_addresses
from tracehouse.torchscript import attributes, nodes, scopes, tensor_constants
from tracehouse.torchscript.onnx_lowering import lowered

# Of those that are kept whole: what is left of the bound is for what says that others are not.
_WHOLE_MAX_BYTES = PRINTOUTS_MAX_BYTES // 2
_LEFT_OUT = "[cut: the printouts of this artifact are over {limit} MiB]"
_CUT = "[cut: this printout is over {limit} MiB; {missing} more lines, and its nodes, are left out]\n"
# torch prints all values of the tensors in a list that a script holds, be it a gigabyte of them.
_DUMPED_VALUES_MAX = 10_000
_NOT_DUMPED = "[left out: this module holds tensors in lists or dicts, and torch would print all their values]\n"


def take(
    module: torch.jit.ScriptModule, max_bytes: int = _WHOLE_MAX_BYTES, each_max_bytes: int = PRINTOUT_MAX_BYTES
) -> bytes:
    """Every printout, the model's own first; one that goes over a limit is cut, and says so in its text."""
    return write_encoded(_fitting(_all(module), max_bytes, each_max_bytes))


def _fitting(printouts: Iterator[Printout], max_bytes: int, each_max_bytes: int) -> Iterator[tuple[Printout, bytes]]:
    left = max_bytes
    for whole in printouts:
        printout, written = whole, encode(whole)
        if len(written) > each_max_bytes:
            printout = _cut(whole, each_max_bytes)
            written = encode(printout)
        if len(written) > left:
            printout = _saying(whole, _LEFT_OUT.format(limit=max_bytes // MIB))
            yield printout, encode(printout)
        else:
            left -= len(written)
            yield printout, written


def _all(module: torch.jit.ScriptModule) -> Iterator[Printout]:
    known = scopes.Scopes(module)
    long = [path for path, part in script_graphs.parts(module) if attributes.tensor_values(part) > _DUMPED_VALUES_MAX]
    for path, part in script_graphs.parts(module):
        for name, method in script_graphs.methods(part).items():
            yield from _of_method(known, name, path, method)
        is_long = any(each == path or each.startswith(f"{path}.") or not path for each in long)
        dump = _NOT_DUMPED if is_long else without_addresses(part._c.dump_to_str(False, False, False))
        yield Printout(kind="dump", method="", submodule=path, text=dump)


def _of_method(known: scopes.Scopes, name: str, path: str, method: Any) -> Iterator[Printout]:
    itself = (name, path)
    graph = _of_graph("graph", itself, method.graph, scopes.Stay(path))
    yield graph
    # Most submodules call none: there is nothing to inline, and the nodes need not be read again.
    if any(node.operator in ("prim::CallMethod", "prim::CallFunction") for node in graph.nodes):
        yield _of_graph("inlined_graph", itself, method.inlined_graph, scopes.Walk(known, path, name))
    else:
        yield graph.model_copy(update={"kind": "inlined_graph"})
    if path == "" and (flat := lowered(known.module, name)) is not None:
        yield _of_graph("onnx_trace", itself, flat, scopes.Walk(known, path, name))
    code, held = tensor_constants.of_method(method)
    # torch shows the calls of functions, and not what they do.
    text = paths.without_paths(
        "\n".join([code, *(function.code for function in script_graphs.functions(method.graph))])
    )
    yield Printout(kind="code", method=name, submodule=path, text=text)
    listed = [f"CONSTANTS.{constant} = {tensor_constants.described(tensor)}\n" for constant, tensor in held.items()]
    whole = "".join([text, *(["\n"] if listed else []), *listed])
    yield Printout(kind="code_with_constants", method=name, submodule=path, text=whole)


def _of_graph(kind: GraphKind, itself: tuple[str, str], graph: script_graphs.Graph, where: nodes.Where) -> Printout:
    method, submodule = itself
    return Printout(
        kind=kind,
        method=method,
        submodule=submodule,
        text=paths.without_paths(str(graph)),
        inputs=[value.debugName() for value in graph.inputs()],
        outputs=[value.debugName() for value in graph.outputs()],
        nodes=nodes.of_graph(graph, where),
    )


def _cut(printout: Printout, max_bytes: int) -> Printout:
    """Its first lines, and a last one that says how many are missing."""
    texts = printout.text.splitlines(keepends=True)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts))
    room = max_bytes - len(encode(_saying(printout, note)))
    kept = bisect_right(list(accumulate(len(orjson.dumps(text)) for text in texts)), room)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts) - kept)
    return _saying(printout, "".join([*texts[:kept], note]))


def _saying(printout: Printout, text: str) -> Printout:
    return Printout(kind=printout.kind, method=printout.method, submodule=printout.submodule, text=text)
