"""Canonical graphs: what a traced method computes, in a form in which two traces can be compared.

The form leaves out what may differ between two traces that compute the same: names, scopes and dead code. A constant is
known by its value, a parameter or an attribute by its path, and every other value by the node that gives it.

Two graphs are compared as sequences of steps, which Python's difflib.SequenceMatcher aligns.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

import torch

from tracehouse.check.graph_diff import line_at_fault
from tracehouse.check.graph_diff.line_at_fault import Frame
from tracehouse.contract.structure import BakedLeaf, Structure, leaves_of
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torch_values.tensors import to_bytes
from tracehouse.torchscript import tensor_constants
from tracehouse.torchscript.trace_shells import TraceShell

_SHOWN_MAX_CHARACTERS = 80
# If the differing parts of two graphs have more pairs of nodes than this, they are not aligned, and only the first
# differing nodes are reported: SequenceMatcher's time grows with the product of the lengths. The number is a choice.
_ALIGNED_PAIRS_MAX = 6_000_000
_NEIGHBOURS_MAX = 8  # so many nodes around a node without a line are searched for one; a choice
_CONSTANT = "constant "
# tolist and numpy record these for the tensor that they read. They change no value, so they are skipped.
_SAME_VALUES = frozenset({"aten::resolve_conj", "aten::resolve_neg"})

# const: the same operator has another constant. wiring: it has the value of another node. struct: an operator is in one
# graph only.
Kind = Literal["const", "wiring", "struct"]
NOTHING = "nothing"


@dataclass(frozen=True)
class GraphDivergence:
    """A place where two graphs of one model differ: the first has `was` there, and the second has `is_`.

    Both are an operator, an operand or NOTHING, as text. `line` is the nearest line that a person can change.
    """

    kind: Kind
    line: user_lines.Line | None
    operator: str
    was: str
    is_: str
    frames: Sequence[Frame] = ()  # the lines that led to the node, the innermost first
    repeated: bool = False  # the graph that lacks the node has others with the same operation and line

    @property
    def origin(self) -> user_lines.Line | None:
        """The line at fault: the line that made the constant, or the line that decided that the node exists."""
        if self.kind == "struct":
            frame = line_at_fault.find_origin_of_step(self.frames, repeated=self.repeated)
        else:
            frame = line_at_fault.find_origin_of_constant(self.frames)
        return user_lines.line_at(*frame) if frame else self.line


class Step:
    """A node of a canonical graph: its operation and its operands."""

    __slots__ = ("node", "operands", "operation")

    def __init__(self, node: script_graphs.Node, operation: str, operands: list[str]) -> None:
        self.node = node
        self.operation = operation  # the operator with its attributes
        self.operands = operands

    @property
    def operator(self) -> str:
        """The operator's name, without its attributes."""
        return self.operation.partition(" ")[0]

    @property
    def frames(self) -> Sequence[Frame]:
        """The lines that led to the node. If it has none, those of nodes that use its outputs or give its inputs."""
        return _frames_near(self.node)


@dataclass(frozen=True)
class CanonicalGraph:
    """The steps of a method. The steps of a block follow the node that has it, and the last step is the return."""

    steps: list[Step]
    graph: script_graphs.Graph  # the nodes are valid only as long as it lives

    @cached_property
    def computation(self) -> list[tuple[str, list[str]]]:
        """The operation and operands of each step: equal for graphs that compute the same."""
        return [(step.operation, step.operands) for step in self.steps]

    def with_draws(self, draws: Sequence[str]) -> Self:
        """Return this graph with the order in which the run that made it drew random numbers, for the last step.

        Draws that nothing uses are no steps, and still change what the later ones draw.
        """
        self.steps[-1].operands += [f"{_CONSTANT}{one}" for one in draws]
        return self


def canonicalize(
    module: torch.jit.ScriptModule | TraceShell, method: str, returns: Structure | None = None
) -> CanonicalGraph:
    """Return the canonical graph of a module's method: inlined and, by torch's own pass, without dead code.

    `returns` is how what the model returned nests, if the graph returns the tensors of it alone: then the last step has
    the constants too. The module itself is not changed. It must have the method.
    """
    graph = script_graphs.methods(module)[method].inlined_graph
    torch._C._jit_pass_dce(graph)
    steps = _GraphReader().read(graph)
    if returns is not None:
        leaves = leaves_of(returns, "output")
        steps[-1].operands += [f"{_CONSTANT}{_describe_leaf(leaf)} as {path}" for path, leaf in leaves]
    return CanonicalGraph(steps, graph)


def _describe_leaf(leaf: Structure) -> str:
    return repr(leaf.baked) if isinstance(leaf, BakedLeaf) else "a tensor"


def find_divergences(was: CanonicalGraph, now: CanonicalGraph, limit: int = 6) -> list[GraphDivergence]:
    """Return the first places where two graphs differ, at most `limit`, in the order of the steps.

    Graphs that compute the same have none.
    """
    if was.computation == now.computation:
        return []
    pairs = _align(was.steps, now.steps)
    return [divergence for _, divergence in zip(range(limit), _find_in_pairs(pairs), strict=False)]


_Pair = tuple[Step | None, Step | None]
_Numbers = Mapping[str, str]
_Key = tuple[str, Frame | None, Frame | None]


class _GraphReader:
    """Reads one graph from its inputs on, and describes each value by what gives it."""

    def __init__(self) -> None:
        self._descriptions: dict[str, str] = {}
        self._steps: list[Step] = []

    def read(self, graph: script_graphs.Graph) -> list[Step]:
        for place, value in enumerate(graph.inputs()):
            self._descriptions[value.debugName()] = "" if _is_module(value) else f"input {place}"
        self._read_block(graph)
        return self._steps

    def _read_block(self, block: Any) -> None:
        for node in block.nodes():
            self._read_node(node)
        self._add(block.returnNode() if hasattr(block, "returnNode") else block.return_node(), "return")

    def _read_node(self, node: script_graphs.Node) -> None:
        match node.kind():
            case "prim::Constant":
                self._descriptions[node.output().debugName()] = _CONSTANT + _describe_constant(node)
            case "prim::GetAttr":
                owner = self._descriptions.get(node.inputsAt(0).debugName(), "?")
                self._descriptions[node.output().debugName()] = f"{owner}.{node.s('name')}"
            case kind if kind in _SAME_VALUES:
                self._descriptions[node.output().debugName()] = self._descriptions.get(
                    node.inputsAt(0).debugName(), "?"
                )
            case kind:
                self._read_operator(node, kind)

    def _read_operator(self, node: script_graphs.Node, kind: str) -> None:
        number = len(self._steps)
        self._add(node, " ".join([kind, *_describe_attributes(node)]))
        for place, value in enumerate(script_graphs.outputs(node)):
            self._descriptions[value.debugName()] = f"%{number}.{place}"
        for index, block in enumerate(script_graphs.blocks(node)):
            for place, value in enumerate(block.inputs()):
                self._descriptions[value.debugName()] = f"%{number}.{index}.{place}"
            self._read_block(block)

    def _add(self, node: script_graphs.Node, operation: str) -> None:
        operands = [self._descriptions.get(value.debugName(), "?") for value in script_graphs.inputs(node)]
        self._steps.append(Step(node, operation, operands))


def _is_module(value: Any) -> bool:
    return bool(value.type().kind() == "ClassType")


def _describe_attributes(node: script_graphs.Node) -> Iterator[str]:
    for name in node.attributeNames():
        yield f"{name}={_describe_attribute(node, name)}"


def _describe_attribute(node: script_graphs.Node, name: str) -> str:
    kind = node.kindOf(name)
    try:
        value = getattr(node, kind)(name)
    except (AttributeError, RuntimeError):
        return str(kind)
    match kind:
        case "g":
            return _hash("\n".join(f"{step.operation} {step.operands}" for step in _GraphReader().read(value)).encode())
        case "t":
            return _describe_tensor(value)
    return repr(value)


def _describe_constant(node: script_graphs.Node) -> str:
    try:
        value = node.output().toIValue()
    except Exception:  # noqa: BLE001 - of a kind that has no value in Python: torch raises several
        return str(node.output().type())
    return _describe_value(value)


def _describe_value(value: Any) -> str:
    match value:
        case torch.Tensor():
            return _describe_tensor(value)
        case list() | tuple():
            return f"[{', '.join(map(_describe_value, value))}]"
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
        case torch.device() | torch.dtype():
            return str(value)
    return type(value).__name__


def _describe_tensor(tensor: torch.Tensor) -> str:
    described = tensor_constants.describe_tensor(tensor)
    try:
        return f"{described} #{_hash(to_bytes(tensor))}"
    except (RuntimeError, TypeError, NotImplementedError):
        return described  # sparse, quantized, or without any memory


def _hash(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _align(was: Sequence[Step], now: Sequence[Step]) -> list[_Pair]:
    """Return the steps of both graphs in order: in pairs that do the same, or alone if only one graph has the step.

    SequenceMatcher aligns what lies between the beginning and the end that both have in common.
    """
    if len(was) == len(now) and all(a.operation == b.operation for a, b in zip(was, now, strict=True)):
        return [*zip(was, now, strict=True)]
    first, second = _keys(was), _keys(now)
    begin = _count_in_common(first, second)
    end = _count_in_common(first[begin:][::-1], second[begin:][::-1])
    middle = len(was) - begin - end, len(now) - begin - end
    pairs: list[_Pair] = [*zip(was[:begin], now[:begin], strict=True)]
    if middle[0] * middle[1] > _ALIGNED_PAIRS_MAX:
        return [*pairs, (was[begin], None), (None, now[begin])]
    matcher = SequenceMatcher(None, first[begin : begin + middle[0]], second[begin : begin + middle[1]], autojunk=False)
    for _, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        old, new = was[begin + a_from : begin + a_to], now[begin + b_from : begin + b_to]
        if _keys(old) == _keys(new):
            pairs += zip(old, new, strict=True)
        else:
            pairs += [(step, None) for step in old]
            pairs += [(None, step) for step in new]
    return [*pairs, *zip(was[len(was) - end :], now[len(now) - end :], strict=True)]


def _keys(steps: Sequence[Step]) -> list[_Key]:
    return [_key(step) for step in steps]


def _key(step: Step) -> _Key:
    """Return the key by which steps are aligned. Its lines tell steps that a loop repeats from steps after the loop."""
    frames = _frames(step.node)
    return step.operation, frames[0] if frames else None, _first_submitted(frames)


def _count_in_common(first: Sequence[Any], second: Sequence[Any]) -> int:
    return next((place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
                min(len(first), len(second)))  # fmt: skip


def _find_in_pairs(pairs: Sequence[_Pair]) -> Iterator[GraphDivergence]:
    numbers = _match_numbers(pairs)
    paired = {*numbers.values()}
    keys = [{_key(step) for pair in pairs if (step := pair[side])} for side in (0, 1)]
    before: _Pair = (None, None)
    for pair in pairs:
        old, new = pair
        if old is not None and new is not None:
            yield from _compare_operands(old, new, numbers, paired)
        elif not _continues(before, pair):
            yield _missing_step(pair, keys)
        before = pair


def _match_numbers(pairs: Sequence[_Pair]) -> dict[str, str]:
    """Return for the number of each paired step of the first graph its number in the second."""
    numbers: dict[str, str] = {}
    old_number = new_number = 0
    for old, new in pairs:
        if old is not None and new is not None:
            numbers[f"%{old_number}"] = f"%{new_number}"
        old_number += old is not None
        new_number += new is not None
    return numbers


def _compare_operands(old: Step, new: Step, numbers: _Numbers, paired: Collection[str]) -> Iterator[GraphDivergence]:
    differing = [
        (was, now)
        for was, now in zip(old.operands, new.operands, strict=False)
        if _is_paired(was, numbers) and _is_paired(now, paired) and _renumber(was, numbers) != now
    ]
    baked = [(was, now) for was, now in differing if was.startswith(_CONSTANT) or now.startswith(_CONSTANT)]
    if baked:
        was, now = baked[0]
        yield _make_divergence("const", old, was, now)
    elif differing:
        was, now = differing[0]
        yield _make_divergence("wiring", old, was, now)
    elif len(old.operands) != len(new.operands):
        yield _make_divergence("wiring", old, f"{len(old.operands)} operands", f"{len(new.operands)} operands")


def _is_paired(operand: str, numbers: Collection[str]) -> bool:
    """Whether both graphs have the step that gives the operand. If not, the missing step is itself a divergence."""
    return not operand.startswith("%") or operand.partition(".")[0] in numbers


def _renumber(operand: str, numbers: _Numbers) -> str:
    number, point, rest = operand.partition(".")
    return numbers[number] + point + rest if number.startswith("%") else operand


def _missing_step(pair: _Pair, keys: Sequence[Collection[_Key]]) -> GraphDivergence:
    old, new = pair
    step = old or new
    assert step is not None
    was, now = (side.operator if side is not None else NOTHING for side in pair)
    return _make_divergence("struct", step, was, now, repeated=_key(step) in keys[1 if new is None else 0])


def _make_divergence(kind: Kind, step: Step, was: str, now: str, *, repeated: bool = False) -> GraphDivergence:
    frames = step.frames
    return GraphDivergence(kind, _line(frames), step.operator, _shorten(was), _shorten(now), frames, repeated)


def _continues(before: _Pair, pair: _Pair) -> bool:
    """Whether the pair before was a divergence of the same kind: more steps that only one graph has."""
    return any(one is None for one in before) and before != (None, None) and any(one is None for one in pair)


def _shorten(operand: str) -> str:
    text = operand.removeprefix(_CONSTANT)
    return user_lines.shorten(text, _SHOWN_MAX_CHARACTERS)


def line_of(node: script_graphs.Node) -> user_lines.Line | None:
    """Return the nearest line of a submitted file, which a person can change, or else the nearest line of a library.

    None if the node has no line.
    """
    return _line(_frames(node))


def _line(frames: Sequence[Frame]) -> user_lines.Line | None:
    chosen = _first_submitted(frames) or next(iter(frames), None)
    return user_lines.line_at(*chosen) if chosen else None


def _first_submitted(frames: Sequence[Frame]) -> Frame | None:
    return next((frame for frame in frames if frame[0] in user_lines.submitted), None)


def _frames(node: script_graphs.Node) -> Sequence[Frame]:
    return _frames_in(node.sourceRange())


@lru_cache(maxsize=20_000)
def _frames_in(source_range: str) -> Sequence[Frame]:
    return tuple(user_lines.frames_of_stack(source_range))


def _frames_near(node: script_graphs.Node) -> Sequence[Frame]:
    return _frames(node) or _frames_among(_consumers(node)) or _frames_among(_producers(node))


def _frames_among(neighbours: Iterator[script_graphs.Node]) -> Sequence[Frame]:
    near = (_frames(one) for _, one in zip(range(_NEIGHBOURS_MAX), neighbours, strict=False))
    return next((frames for frames in near if frames), ())


def _consumers(node: script_graphs.Node) -> Iterator[script_graphs.Node]:
    """Yield the nodes that use the node's outputs, directly or not, the nearest first."""
    return _outward(node, lambda one: [use.user for output in script_graphs.outputs(one) for use in output.uses()])


def _producers(node: script_graphs.Node) -> Iterator[script_graphs.Node]:
    """Yield the nodes that give the node's inputs, directly or not, the nearest first."""
    return _outward(node, lambda one: [value.node() for value in script_graphs.inputs(one)])


def _outward(node: script_graphs.Node, neighbours_of: Any) -> Iterator[script_graphs.Node]:
    frontier = neighbours_of(node)
    for _ in range(_NEIGHBOURS_MAX):
        if not frontier:
            return
        yield from frontier
        frontier = [beyond for one in frontier[:_NEIGHBOURS_MAX] for beyond in neighbours_of(one)]
