"""Scripted graphs: findings on all branches of a script, even on those that no call has taken.

Most are found in the graphs of a frozen copy (torch.jit.freeze), which has nothing left that happens only in train
mode.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from tracehouse.findings import repeatability
from tracehouse.findings.finding import Finding
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import train_mode

_NORMS = ("__torch__.torch.nn.modules.batchnorm.", "__torch__.torch.nn.modules.instancenorm.")
# Operators that turn a tensor into Python numbers, and operators whose results soon exceed 64 bits.
_READS_A_NUMBER = {"aten::Int", "aten::IntImplicit", "aten::item", "aten::ScalarImplicit", "prim::tolist"}
_GROWS = {"aten::mul", "aten::pow", "aten::__lshift__"}
_NUMBERS = {"IntType", "NumberType"}

State = tuple[str, str]  # a type of modules, and an attribute of it
Graphs = Mapping[str, script_graphs.Graph]  # by method


def inspect_graphs(module: torch.jit.ScriptModule, methods: Sequence[str]) -> list[Finding]:
    """Return the findings on these methods, and on everything that they call.

    They are about state that one call leaves to another, random numbers, and integers that may exceed 64 bits.
    """
    frozen = _freeze(module, methods)
    return [
        *_find_shared_state(frozen),
        *_find_in_each(frozen, find_draws, _may_draw),
        *_find_in_each(_graphs_of(module, methods), _find_growing_numbers, _is_64_bit),
    ]


def find_draws(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """Yield the nodes that draw random numbers, without dropouts that the graph shows to be turned off.

    `Node.isNondeterministic` of torch decides whether a node draws.
    """
    return (node for node in _nodes(graph) if node.isNondeterministic() and not train_mode.is_inactive_dropout(node))


def find_generators(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """Yield the constants of the graph that are a torch.Generator."""
    return (
        node for node in _nodes(graph) if node.kind() == "prim::Constant" and str(node.output().type()) == "Generator"
    )


def _freeze(module: torch.jit.ScriptModule, methods: Sequence[str]) -> Graphs:
    try:
        # It takes the gradients off tensors in lists, which the copy shares: all that needs them came before.
        frozen = torch.jit.freeze(module, preserved_attrs=[*methods], optimize_numerics=False)
        return _graphs_of(frozen, methods)
    except Exception:  # noqa: BLE001 - in train mode, frozen already, or of a kind that torch does not freeze
        return _graphs_of(module, methods)


def _graphs_of(module: torch.jit.ScriptModule, methods: Sequence[str]) -> Graphs:
    compiled = script_graphs.methods(module)
    return {method: compiled[method].inlined_graph for method in methods if method in compiled}


def _nodes(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """Yield all nodes, also those of forked graphs, which belong to no block."""
    for node in script_graphs.nodes(graph):
        yield node
        if node.kind() == "prim::fork":
            yield from _nodes(node.g("Subgraph"))


def _find_in_each(
    graphs: Graphs,
    find: Callable[[script_graphs.Graph], Iterator[script_graphs.Node]],
    finding: Callable[[str, script_graphs.Node], Finding],
) -> list[Finding]:
    """Return a finding on the first node that `find` yields for each method."""
    first = {method: next(find(graph), None) for method, graph in graphs.items()}
    return [finding(method, node) for method, node in first.items() if node is not None]


def _find_shared_state(graphs: Graphs) -> list[Finding]:
    """Return findings on state that one method writes and the same or another one reads.

    With such state, one client's calls change the answers to another.
    """
    readers: dict[State, list[str]] = {}
    for method, graph in graphs.items():
        for state in dict.fromkeys(_find_reads(graph)):
            readers.setdefault(state, []).append(method)
    findings = []
    for method, graph in graphs.items():
        writes = {state: node for state, node in _find_writes(graph) if state in readers}
        if writes:
            findings.append(
                _state_written(method, writes, sorted({name for state in writes for name in readers[state]}))
            )
    return findings


def _find_reads(graph: script_graphs.Graph) -> Iterator[State]:
    for node in _nodes(graph):
        if node.kind() == "prim::GetAttr" and not all(map(_only_writes, node.output().uses())):
            yield _state(node)


def _find_writes(graph: script_graphs.Graph) -> Iterator[tuple[State, script_graphs.Node]]:
    """Yield the state that is assigned, or written into directly or through a view, with the node that writes."""
    for node in _nodes(graph):
        if node.kind() == "prim::SetAttr" and _is_kept(node):
            yield _state(node), node
            continue
        for place in _find_written_arguments(node):
            source = _follow_views(node.inputsAt(place)).node()
            if source.kind() == "prim::GetAttr" and _is_kept(source) and not _state(source)[0].startswith(_NORMS):
                yield _state(source), node


def _state(node: script_graphs.Node) -> State:
    return node.inputsAt(0).type().str(), node.s("name")


def _is_kept(node: script_graphs.Node) -> bool:
    """Whether the attribute belongs to the module or an object that it holds, not to an object that the call made."""
    owner = _follow_views(node.inputsAt(0)).node()
    while owner.kind() == "prim::GetAttr":
        owner = _follow_views(owner.inputsAt(0)).node()
    return owner.kind() in ("prim::Param", "prim::Constant")


def _only_writes(use: Any) -> bool:
    written = use.offset in _find_written_arguments(use.user)
    return written and not any(output.uses() for output in use.user.outputs())


def _find_written_arguments(node: script_graphs.Node) -> list[int]:
    return [place for place, is_write in enumerate(_aliases(node.schema())) if is_write]


def _follow_views(value: Any) -> Any:
    """Return the value that a chain of views looks into."""
    while (aliases := _aliases(value.node().schema())) and aliases[0] is not None:
        value = value.node().inputsAt(0)
    return value


@lru_cache(maxsize=2000)
def _aliases(schema: str) -> list[bool | None]:
    """Return for each argument whether it is written into; None if it is no alias. Control flow has no schema."""
    if not schema.startswith("aten::"):
        return []
    arguments = torch._C.parse_schema(schema).arguments
    return [one.alias_info.is_write if one.alias_info is not None else None for one in arguments]


def _find_growing_numbers(graph: script_graphs.Graph) -> Iterator[script_graphs.Node]:
    """Yield the nodes that multiply, shift or raise to a power an integer that comes from a tensor's values."""
    known = _find_numbers_read(graph)
    for node in script_graphs.nodes(graph) if known else ():
        if node.kind() in _GROWS and _is_number(node.output()) and _depends_on(node, known):
            yield node


def _find_numbers_read(graph: script_graphs.Graph) -> set[str]:
    """Return the names of the values that come from numbers read out of tensors, also through loops and branches.

    It repeats the pass over the graph until no name is new (a fixed point of forward taint).
    """
    known = {node.output().debugName() for node in script_graphs.nodes(graph) if node.kind() in _READS_A_NUMBER}
    before = 0
    while len(known) > before:
        before = len(known)
        for node in script_graphs.nodes(graph):
            known |= _pass_on(node, known)
    return known


def _pass_on(node: script_graphs.Node, known: set[str]) -> set[str]:
    """Return the names of the values that this node makes from known ones."""
    match node.kind():
        case "prim::Loop":
            (body,) = node.blocks()
            begin, back = [*node.inputs()][2:], [*body.outputs()][1:]
            pairs = [*zip(begin, [*body.inputs()][1:], strict=True), *zip(back, [*body.inputs()][1:], strict=True)]
            pairs += [*zip(begin, node.outputs(), strict=True), *zip(back, node.outputs(), strict=True)]
        case "prim::If":
            pairs = [pair for block in node.blocks() for pair in zip(block.outputs(), node.outputs(), strict=True)]
        case _:
            depends = _depends_on(node, known)
            return {value.debugName() for value in node.outputs() if depends and (_is_number(value) or _is_list(value))}
    return {to.debugName() for source, to in pairs if source.debugName() in known}


def _depends_on(node: script_graphs.Node, known: set[str]) -> bool:
    return any(value.debugName() in known for value in node.inputs())


def _is_number(value: Any) -> bool:
    return value.type().kind() in _NUMBERS


def _is_list(value: Any) -> bool:
    """Whether the value is a list of integers."""
    return bool(value.type().annotation_str == "List[int]")


def _state_written(method: str, writes: Mapping[State, script_graphs.Node], readers: Sequence[str]) -> Finding:
    line = next((line for node in writes.values() if (line := _line_of(node))), None)
    return repeatability.state_written(
        method, sorted({name for _, name in writes}), readers, user_lines.line_facts(line)
    )


def _line_of(write: script_graphs.Node) -> user_lines.Line | None:
    """Return the line of a write. An assignment has none itself, so it gets the line of the assigned value."""
    return script_graphs.line_of(write) or script_graphs.line_of([*write.inputs()][-1].node())


def _may_draw(method: str, node: script_graphs.Node) -> Finding:
    return repeatability.may_draw(method, node.kind(), user_lines.line_facts(script_graphs.line_of(node)))


def _is_64_bit(method: str, node: script_graphs.Node) -> Finding:
    return repeatability.python_int_is_64_bit(method, node.kind(), user_lines.line_facts(script_graphs.line_of(node)))
