"""Compiled code: what its graphs show of the calls that nobody has tried, where a script keeps its branches.

They are read in a frozen copy, in which there is nothing left of what only train mode does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from tracehouse.findings import repeatability
from tracehouse.findings.trace_check import Finding
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import train_mode

_NORMS = ("__torch__.torch.nn.modules.batchnorm.", "__torch__.torch.nn.modules.instancenorm.")
# What makes Python's numbers of a tensor, and what soon leaves 64 bits.
_READS_A_NUMBER = {"aten::Int", "aten::IntImplicit", "aten::item", "aten::ScalarImplicit", "prim::tolist"}
_GROWS = {"aten::mul", "aten::pow", "aten::__lshift__"}
_NUMBERS = {"IntType", "NumberType"}

State = tuple[str, str]  # a type of modules, and an attribute of it
Graphs = Mapping[str, script_graphs.Graph]  # by method


def found(module: torch.jit.ScriptModule, methods: Sequence[str]) -> list[Finding]:
    """Of the methods that are served, and of all that they call."""
    frozen = _frozen(module, methods)
    return [
        *_carried(frozen),
        *_each(frozen, drawing, _may_draw),
        *_each(_of_methods(module, methods), _outgrowing, _is_64_bit),
    ]


def drawing(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """The nodes that draw random numbers, where nothing in the graph says that they do not."""
    return (node for node in _nodes(graph) if node.isNondeterministic() and not train_mode.is_inactive_dropout(node))


def _frozen(module: torch.jit.ScriptModule, methods: Sequence[str]) -> Graphs:
    try:
        # It takes the gradients off tensors in lists, which the copy shares: all that needs them came before.
        frozen = torch.jit.freeze(module, preserved_attrs=[*methods], optimize_numerics=False)
        return _of_methods(frozen, methods)
    except Exception:  # noqa: BLE001 - in train mode, frozen already, or of a kind that torch does not freeze
        return _of_methods(module, methods)


def _of_methods(module: torch.jit.ScriptModule, methods: Sequence[str]) -> Graphs:
    compiled = script_graphs.methods(module)
    return {method: compiled[method].inlined_graph for method in methods if method in compiled}


def _nodes(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """With those of what is forked, which no block has."""
    for node in script_graphs.nodes(graph):
        yield node
        if node.kind() == "prim::fork":
            yield from _nodes(node.g("Subgraph"))


def _each(
    of: Graphs,
    seen: Callable[[script_graphs.Graph], Iterator[script_graphs.Node]],
    finding: Callable[[str, script_graphs.Node], Finding],
) -> list[Finding]:
    """One for each method, of the first node."""
    first = {method: next(seen(graph), None) for method, graph in of.items()}
    return [finding(method, node) for method, node in first.items() if node is not None]


def _carried(of: Graphs) -> list[Finding]:
    """State that one method writes and one reads, which may be the same, and be served to another client."""
    readers: dict[State, list[str]] = {}
    for method, graph in of.items():
        for state in dict.fromkeys(_read(graph)):
            readers.setdefault(state, []).append(method)
    findings = []
    for method, graph in of.items():
        writes = {state: node for state, node in _written(graph) if state in readers}
        if writes:
            findings.append(
                _state_written(method, writes, sorted({name for state in writes for name in readers[state]}))
            )
    return findings


def _read(graph: script_graphs.Graph) -> Iterator[State]:
    for node in _nodes(graph):
        if node.kind() == "prim::GetAttr" and not all(map(_only_writes, node.output().uses())):
            yield _state(node)


def _written(graph: script_graphs.Graph) -> Iterator[tuple[State, script_graphs.Node]]:
    """Assigned, or written into, be it in a view."""
    for node in _nodes(graph):
        if node.kind() == "prim::SetAttr" and _is_kept(node):
            yield _state(node), node
            continue
        for place in _written_arguments(node):
            source = _viewed(node.inputsAt(place)).node()
            if source.kind() == "prim::GetAttr" and _is_kept(source) and not _state(source)[0].startswith(_NORMS):
                yield _state(source), node


def _state(node: script_graphs.Node) -> State:
    return node.inputsAt(0).type().str(), node.s("name")


def _is_kept(node: script_graphs.Node) -> bool:
    """Whether the attribute is the module's, or of an object that it holds: not of one that the call has made."""
    owner = _viewed(node.inputsAt(0)).node()
    while owner.kind() == "prim::GetAttr":
        owner = _viewed(owner.inputsAt(0)).node()
    return owner.kind() in ("prim::Param", "prim::Constant")


def _only_writes(use: Any) -> bool:
    written = use.offset in _written_arguments(use.user)
    return written and not any(output.uses() for output in use.user.outputs())


def _written_arguments(node: script_graphs.Node) -> list[int]:
    return [place for place, is_write in enumerate(_aliases(node.schema())) if is_write]


def _viewed(value: Any) -> Any:
    """What a chain of views looks into."""
    while (aliases := _aliases(value.node().schema())) and aliases[0] is not None:
        value = value.node().inputsAt(0)
    return value


@lru_cache(maxsize=2000)
def _aliases(schema: str) -> list[bool | None]:
    """Of each argument, whether it is written into; None of what is no alias. Control flow has no schema."""
    if not schema.startswith("aten::"):
        return []
    arguments = torch._C.parse_schema(schema).arguments
    return [one.alias_info.is_write if one.alias_info is not None else None for one in arguments]


def _outgrowing(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """Where whole numbers that come from a tensor's values are multiplied, shifted or raised to a power."""
    known = _numbers_read(graph)
    for node in script_graphs.nodes(graph) if known else ():
        if node.kind() in _GROWS and _is_number(node.output()) and _reached(node, known):
            yield node


def _numbers_read(graph: script_graphs.Graph) -> set[str]:
    """The values that are such numbers, through loops and branches, until there are no more."""
    known = {node.output().debugName() for node in script_graphs.nodes(graph) if node.kind() in _READS_A_NUMBER}
    before = 0
    while len(known) > before:
        before = len(known)
        for node in script_graphs.nodes(graph):
            known |= _passed_on(node, known)
    return known


def _passed_on(node: script_graphs.Node, known: set[str]) -> set[str]:
    match node.kind():
        case "prim::Loop":
            (body,) = node.blocks()
            begin, back = [*node.inputs()][2:], [*body.outputs()][1:]
            pairs = [*zip(begin, [*body.inputs()][1:], strict=True), *zip(back, [*body.inputs()][1:], strict=True)]
            pairs += [*zip(begin, node.outputs(), strict=True), *zip(back, node.outputs(), strict=True)]
        case "prim::If":
            pairs = [pair for block in node.blocks() for pair in zip(block.outputs(), node.outputs(), strict=True)]
        case _:
            reached = _reached(node, known)
            return {value.debugName() for value in node.outputs() if reached and (_is_number(value) or _is_list(value))}
    return {to.debugName() for source, to in pairs if source.debugName() in known}


def _reached(node: script_graphs.Node, known: set[str]) -> bool:
    return any(value.debugName() in known for value in node.inputs())


def _is_number(value: Any) -> bool:
    return value.type().kind() in _NUMBERS


def _is_list(value: Any) -> bool:
    """Of whole numbers."""
    return bool(value.type().annotation_str == "List[int]")


def _state_written(method: str, writes: Mapping[State, script_graphs.Node], readers: Sequence[str]) -> Finding:
    line = next((line for node in writes.values() if (line := _line_of(node))), None)
    return repeatability.state_written(
        method, sorted({name for _, name in writes}), readers, user_lines.line_facts(line)
    )


def _line_of(write: script_graphs.Node) -> user_lines.Line | None:
    """An assignment has none itself: that of what is assigned."""
    return script_graphs.line_of(write) or script_graphs.line_of([*write.inputs()][-1].node())


def _may_draw(method: str, node: script_graphs.Node) -> Finding:
    return repeatability.may_draw(method, node.kind(), user_lines.line_facts(script_graphs.line_of(node)))


def _is_64_bit(method: str, node: script_graphs.Node) -> Finding:
    return repeatability.python_int_is_64_bit(method, node.kind(), user_lines.line_facts(script_graphs.line_of(node)))
