"""Canonical graphs: what a traced method computes, in a form in which two traces can be compared, and where they part.

Left out is all that two traces of one model may differ in without a word: names, scopes, dead code. A constant is its
value, a parameter or an attribute its path, and every other value the node that gives it.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Any, Literal

import torch

from tracehouse.check.graph_diff import line_at_fault
from tracehouse.check.graph_diff.line_at_fault import Frame
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.torchscript import tensor_constants

_SHOWN_MAX_CHARACTERS = 80
# Aligned node by node where the parts that differ are not larger; beyond, only the first node that differs is told.
_ALIGNED_MAX = 6_000_000
# How far a line is looked for beyond a node that has none.
_NEIGHBOURS_MAX = 8
_CONSTANT = "constant "
# What tolist and numpy record of the tensor that they read; all that comes after goes through it.
_SAME_VALUES = frozenset({"aten::resolve_conj", "aten::resolve_neg"})

# const: the same operator with another constant; wiring: with another node's value; struct: an operator of one graph.
Kind = Literal["const", "wiring", "struct"]
NOTHING = "nothing"


@dataclass(frozen=True)
class GraphDivergence:
    """Where two graphs part, and what each has there."""

    kind: Kind
    line: user_lines.Line | None
    operator: str
    was: str
    is_: str
    frames: Sequence[Frame] = ()  # that led to the node, the innermost first
    repeated: bool = False  # the graph that lacks the node has others that do the same, from the same line

    @property
    def origin(self) -> user_lines.Line | None:
        """The line at fault: where the constant was made, or where it was decided that the node is there."""
        if self.kind == "struct":
            frame = line_at_fault.of_structure(self.frames, repeated=self.repeated)
        else:
            frame = line_at_fault.of_constant(self.frames)
        return user_lines.line_at(*frame) if frame else self.line


class Step:
    """A node: what it does, and what with."""

    __slots__ = ("does", "node", "operands")

    def __init__(self, node: script_graphs.Node, does: str, operands: list[str]) -> None:
        self.node = node
        self.does = does  # the operator with its attributes
        self.operands = operands

    @property
    def operator(self) -> str:
        return self.does.partition(" ")[0]

    @property
    def frames(self) -> Sequence[Frame]:
        """Its own, else those of what its outputs go to, else those of what its inputs come from."""
        return _frames_near(self.node)


@dataclass(frozen=True)
class Canonical:
    """The steps of a method, those of blocks behind the node that has them; the last one is what it returns."""

    steps: list[Step]
    graph: script_graphs.Graph  # a copy, that the nodes live in

    @cached_property
    def computes(self) -> list[tuple[str, list[str]]]:
        return [(step.does, step.operands) for step in self.steps]

    @cached_property
    def fingerprint(self) -> bytes:
        """The same for graphs that compute the same."""
        digest = hashlib.blake2b(digest_size=16)
        for does, operands in self.computes:
            digest.update("\0".join([does, *operands, "\n"]).encode(errors="surrogatepass"))
        return digest.digest()


def canonical(module: torch.jit.ScriptModule, method: str) -> Canonical:
    """Of a method of an artifact, which is left as it is."""
    graph = script_graphs.methods(module)[method].inlined_graph
    torch._C._jit_pass_dce(graph)
    return Canonical(_Reading().of_graph(graph), graph)


def difference(was: Canonical, now: Canonical, limit: int = 6) -> list[GraphDivergence]:
    """The first places where the two part, in their order; none for graphs that compute the same."""
    if was.computes == now.computes:
        return []
    pairs = _aligned(was.steps, now.steps)
    return [parting for _, parting in zip(range(limit), _partings(pairs), strict=False)]


_Pair = tuple[Step | None, Step | None]
# The places of the steps that have the same number in the other graph.
_Places = Mapping[str, str]
_Key = tuple[str, Frame | None, Frame | None]


class _Reading:
    """One walk through a graph; values are known by what gives them."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._steps: list[Step] = []

    def of_graph(self, graph: script_graphs.Graph) -> list[Step]:
        for place, value in enumerate(graph.inputs()):
            self._known[value.debugName()] = "" if _is_module(value) else f"input {place}"
        self._block(graph)
        return self._steps

    def _block(self, block: Any) -> None:
        for node in block.nodes():
            self._node(node)
        self._add(block.returnNode() if hasattr(block, "returnNode") else block.return_node(), "return")

    def _node(self, node: script_graphs.Node) -> None:
        match node.kind():
            case "prim::Constant":
                self._known[node.output().debugName()] = _CONSTANT + _constant(node)
            case "prim::GetAttr":
                owner = self._known.get(node.inputsAt(0).debugName(), "?")
                self._known[node.output().debugName()] = f"{owner}.{node.s('name')}"
            case kind if kind in _SAME_VALUES:
                self._known[node.output().debugName()] = self._known.get(node.inputsAt(0).debugName(), "?")
            case kind:
                self._operator(node, kind)

    def _operator(self, node: script_graphs.Node, kind: str) -> None:
        number = len(self._steps)
        self._add(node, " ".join([kind, *_attributes(node)]))
        for place, value in enumerate(node.outputs()):
            self._known[value.debugName()] = f"%{number}.{place}"
        for index, block in enumerate(node.blocks()):
            for place, value in enumerate(block.inputs()):
                self._known[value.debugName()] = f"%{number}.{index}.{place}"
            self._block(block)

    def _add(self, node: script_graphs.Node, does: str) -> None:
        operands = [self._known.get(value.debugName(), "?") for value in node.inputs()]
        self._steps.append(Step(node, does, operands))


def _is_module(value: Any) -> bool:
    return bool(value.type().kind() == "ClassType")


def _attributes(node: script_graphs.Node) -> Iterator[str]:
    for name in node.attributeNames():
        yield f"{name}={_attribute(node, name)}"


def _attribute(node: script_graphs.Node, name: str) -> str:
    kind = node.kindOf(name)
    try:
        value = getattr(node, kind)(name)
    except (AttributeError, RuntimeError):
        return str(kind)
    match kind:
        case "g":
            return _hash("\n".join(f"{step.does} {step.operands}" for step in _Reading().of_graph(value)).encode())
        case "t":
            return _of_tensor(value)
    return repr(value)


def _constant(node: script_graphs.Node) -> str:
    try:
        value = node.output().toIValue()
    except Exception:  # noqa: BLE001 - of a kind that has no value in Python: torch raises several
        return str(node.output().type())
    return _value(value)


def _value(value: Any) -> str:
    match value:
        case torch.Tensor():
            return _of_tensor(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
        case torch.device() | torch.dtype():
            return str(value)
    return type(value).__name__


def _of_tensor(tensor: torch.Tensor) -> str:
    described = tensor_constants.described(tensor)
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return f"{described} #{_hash(plain.as_strided((plain.numel(),), (1,)).view(torch.uint8).numpy().data)}"
    except (RuntimeError, TypeError, NotImplementedError):
        return described  # sparse, quantized, or without any memory


def _hash(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _aligned(was: Sequence[Step], now: Sequence[Step]) -> list[_Pair]:
    """Both side by side, in order: steps that do the same, and those that only one side has."""
    if len(was) == len(now) and all(a.does == b.does for a, b in zip(was, now, strict=True)):
        return [*zip(was, now, strict=True)]
    first, second = _keys(was), _keys(now)
    begin = _in_common(first, second)
    end = _in_common(first[begin:][::-1], second[begin:][::-1])
    middle = len(was) - begin - end, len(now) - begin - end
    pairs: list[_Pair] = [*zip(was[:begin], now[:begin], strict=True)]
    if middle[0] * middle[1] > _ALIGNED_MAX:
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
    """What a loop repeats is told from what stands behind it by its lines."""
    frames = _frames(step.node)
    return step.does, frames[0] if frames else None, _submitted(frames)


def _in_common(first: Sequence[Any], second: Sequence[Any]) -> int:
    return next((place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
                min(len(first), len(second)))  # fmt: skip


def _partings(pairs: Sequence[_Pair]) -> Iterator[GraphDivergence]:
    renumbered = _renumbered(pairs)
    paired = {*renumbered.values()}
    keys = [{_key(step) for pair in pairs if (step := pair[side])} for side in (0, 1)]
    before: _Pair = (None, None)
    for pair in pairs:
        old, new = pair
        if old is not None and new is not None:
            yield from _of_operands(old, new, renumbered, paired)
        elif not _continues(before, pair):
            yield _of_struct(pair, keys)
        before = pair


def _renumbered(pairs: Sequence[_Pair]) -> dict[str, str]:
    """The numbers of steps of the one graph, by their numbers in the other."""
    found: dict[str, str] = {}
    old_number = new_number = 0
    for old, new in pairs:
        if old is not None and new is not None:
            found[f"%{old_number}"] = f"%{new_number}"
        old_number += old is not None
        new_number += new is not None
    return found


def _of_operands(old: Step, new: Step, renumbered: _Places, paired: Collection[str]) -> Iterator[GraphDivergence]:
    differing = [
        (was, now)
        for was, now in zip(old.operands, new.operands, strict=False)
        if _is_paired(was, renumbered) and _is_paired(now, paired) and _in_new_numbers(was, renumbered) != now
    ]
    baked = [(was, now) for was, now in differing if was.startswith(_CONSTANT) or now.startswith(_CONSTANT)]
    if baked:
        was, now = baked[0]
        yield _parting("const", old, was, now)
    elif differing:
        was, now = differing[0]
        yield _parting("wiring", old, was, now)
    elif len(old.operands) != len(new.operands):
        yield _parting("wiring", old, f"{len(old.operands)} operands", f"{len(new.operands)} operands")


def _is_paired(operand: str, numbers: Collection[str]) -> bool:
    """Not where it is the value of a step that the other graph lacks: that parting is told where the step stands."""
    return not operand.startswith("%") or operand.partition(".")[0] in numbers


def _in_new_numbers(operand: str, renumbered: _Places) -> str:
    number, point, rest = operand.partition(".")
    return renumbered[number] + point + rest if number.startswith("%") else operand


def _of_struct(pair: _Pair, keys: Sequence[Collection[_Key]]) -> GraphDivergence:
    old, new = pair
    step = old or new
    assert step is not None
    was, now = (side.operator if side is not None else NOTHING for side in pair)
    return _parting("struct", step, was, now, repeated=_key(step) in keys[1 if new is None else 0])


def _parting(kind: Kind, step: Step, was: str, now: str, *, repeated: bool = False) -> GraphDivergence:
    frames = step.frames
    return GraphDivergence(kind, _line(frames), step.operator, _shown(was), _shown(now), frames, repeated)


def _continues(before: _Pair, pair: _Pair) -> bool:
    """Whether it goes on with what the pair before has told of already: more steps of one side."""
    return any(one is None for one in before) and before != (None, None) and any(one is None for one in pair)


def _shown(operand: str) -> str:
    text = operand.removeprefix(_CONSTANT)
    return user_lines.shortened(text, _SHOWN_MAX_CHARACTERS)


def line_of(node: script_graphs.Node) -> user_lines.Line | None:
    """The nearest in a submitted file, where there is one: a person can act there. Else the nearest of a library."""
    return _line(_frames(node))


def _line(frames: Sequence[Frame]) -> user_lines.Line | None:
    chosen = _submitted(frames) or next(iter(frames), None)
    return user_lines.line_at(*chosen) if chosen else None


def _submitted(frames: Sequence[Frame]) -> Frame | None:
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
    """The nearest first."""
    return _outward(node, lambda one: [use.user for output in one.outputs() for use in output.uses()])


def _producers(node: script_graphs.Node) -> Iterator[script_graphs.Node]:
    return _outward(node, lambda one: [value.node() for value in one.inputs()])


def _outward(node: script_graphs.Node, following: Any) -> Iterator[script_graphs.Node]:
    waiting = following(node)
    for _ in range(_NEIGHBOURS_MAX):
        if not waiting:
            return
        yield from waiting
        waiting = [beyond for one in waiting[:_NEIGHBOURS_MAX] for beyond in following(one)]
