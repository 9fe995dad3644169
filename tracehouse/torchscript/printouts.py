"""Printouts: each method's graph and code as text and as nodes with the user's lines, for every submodule."""

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
from tracehouse.torchscript.onnx_lowering import lower

# The space for whole printouts. The rest of the limit is for notes that say which printouts were cut.
_WHOLE_MAX_BYTES = PRINTOUTS_MAX_BYTES // 2
_LEFT_OUT = "[cut: the printouts of this artifact are over {limit} MiB]"
_CUT = "[cut: this printout is over {limit} MiB; {missing} more lines, and its nodes, are left out]\n"
# torch's dump prints every value of a tensor in a list, even if there is a gigabyte of them.
_DUMPED_VALUES_MAX = 10_000
_NOT_DUMPED = "[left out: this module holds tensors in lists or dicts, and torch would print all their values]\n"


def print_all(
    module: torch.jit.ScriptModule, max_bytes: int = _WHOLE_MAX_BYTES, each_max_bytes: int = PRINTOUT_MAX_BYTES
) -> bytes:
    """Return the bytes of a file with every printout, the model's own first.

    A printout over a limit is cut, and its text says so. `max_bytes` limits all whole printouts together, and
    `each_max_bytes` limits each one.
    """
    return write_encoded(_cut_to_limits(_printouts_of(module), max_bytes, each_max_bytes))


def _cut_to_limits(
    printouts: Iterator[Printout], max_bytes: int, each_max_bytes: int
) -> Iterator[tuple[Printout, bytes]]:
    left = max_bytes
    for whole in printouts:
        printout, written = whole, encode(whole)
        if len(written) > each_max_bytes:
            printout = _cut_printout(whole, each_max_bytes)
            written = encode(printout)
        if len(written) > left:
            printout = _with_text_alone(whole, _LEFT_OUT.format(limit=max_bytes // MIB))
            yield printout, encode(printout)
        else:
            left -= len(written)
            yield printout, written


def _printouts_of(module: torch.jit.ScriptModule) -> Iterator[Printout]:
    known = scopes.Scopes(module)
    long = [
        path for path, part in script_graphs.parts(module) if attributes.count_tensor_values(part) > _DUMPED_VALUES_MAX
    ]
    for path, part in script_graphs.parts(module):
        for name, method in script_graphs.methods(part).items():
            yield from _print_method(known, name, path, method)
        is_long = any(each == path or each.startswith(f"{path}.") or not path for each in long)
        dump = _NOT_DUMPED if is_long else without_addresses(part._c.dump_to_str(False, False, False))
        yield Printout(kind="dump", method="", submodule=path, text=dump)


def _print_method(known: scopes.Scopes, name: str, path: str, method: Any) -> Iterator[Printout]:
    itself = (name, path)
    graph = _print_graph("graph", itself, method.graph, scopes.FixedPlace(path))
    yield graph
    # Most methods call no other: then there is nothing to inline, and the nodes need not be read again.
    if any(node.operator in ("prim::CallMethod", "prim::CallFunction") for node in graph.nodes):
        yield _print_graph("inlined_graph", itself, method.inlined_graph, scopes.InlinedWalk(known, path, name))
    else:
        yield graph.model_copy(update={"kind": "inlined_graph"})
    if path == "" and (flat := lower(known.module, name)) is not None:
        yield _print_graph("onnx_trace", itself, flat, scopes.InlinedWalk(known, path, name))
    code, constants = tensor_constants.code_and_constants(method)
    # torch shows a method's calls of functions, but not the functions' code.
    text = paths.without_paths(
        "\n".join([code, *(function.code for function in script_graphs.functions(method.graph))])
    )
    yield Printout(kind="code", method=name, submodule=path, text=text)
    listed = [
        f"CONSTANTS.{constant} = {tensor_constants.describe_tensor(tensor)}\n" for constant, tensor in constants.items()
    ]
    whole = "".join([text, *(["\n"] if listed else []), *listed])
    yield Printout(kind="code_with_constants", method=name, submodule=path, text=whole)


def _print_graph(
    kind: GraphKind, itself: tuple[str, str], graph: script_graphs.Graph, where: nodes.PlaceFinder
) -> Printout:
    method, submodule = itself
    return Printout(
        kind=kind,
        method=method,
        submodule=submodule,
        text=paths.without_paths(str(graph)),
        inputs=[value.debugName() for value in graph.inputs()],
        outputs=[value.debugName() for value in graph.outputs()],
        nodes=nodes.describe_nodes(graph, where),
    )


def _cut_printout(printout: Printout, max_bytes: int) -> Printout:
    """Return the printout's first lines and a note that says how many are missing."""
    texts = printout.text.splitlines(keepends=True)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts))
    room = max_bytes - len(encode(_with_text_alone(printout, note)))
    kept = bisect_right(list(accumulate(len(orjson.dumps(text)) for text in texts)), room)
    note = _CUT.format(limit=max_bytes // MIB, missing=len(texts) - kept)
    return _with_text_alone(printout, "".join([*texts[:kept], note]))


def _with_text_alone(printout: Printout, text: str) -> Printout:
    return Printout(kind=printout.kind, method=printout.method, submodule=printout.submodule, text=text)
