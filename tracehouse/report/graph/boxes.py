"""Boxes and edges: the parts of a picture of a graph. In a large graph, each submodule is folded into one box.

The process that wrote the printout ran submitted code and may have forged it. So the work is linear in the number of
names, and a graph that is larger than any model's is drawn in part.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from math import ceil

from tracehouse.artifact.manifest import GraphNode, Printout

# The numbers here are chosen. A person can read READABLE_MAX boxes. A larger graph is folded to an overview of at most
# OVERVIEW_MAX boxes, and a reader opens its submodules.
READABLE_MAX = 100
OVERVIEW_MAX = 30
# Nobody reads more boxes than this, even with every submodule open: then neighbours are drawn as one box.
BOXES_MAX = 1500
# A model's graph seldom has more than these; a forged one could have millions.
INPUTS_MAX = 500
EDGES_MAX = 4000
TITLE_MAX = 1000  # characters
_VALUE_TITLE_MAX = 200
_DEPTH_MAX = 20
# Limits of a submodule's path, in characters and in steps: each step costs a comparison for every box.
_PATH_MAX = 500
_STEPS_MAX = 50
# `prim::If` has two blocks; no node of torch has more.
_ENDS_MAX = 2
_OPERATORS_SHOWN = 20

# A box has room only for the shape in `Float(1, 2, strides=[2, 1], requires_grad=0, device=cpu)`.
_BESIDE_SHAPE = re.compile(r", (strides|requires_grad|device)=[^)]*")
_BLOCKS = {("prim::If", 0): "then", ("prim::If", 1): "else", ("prim::Loop", 0): "each time"}


@dataclass(slots=True)
class Box:
    """One node or several, by their indices in the printout. `opens` is the submodule's path that unfolds the box."""

    label: str
    type: str
    title: str
    module: str
    nodes: list[int] = field(default_factory=list)
    opens: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one box to another, by their indices in `Boxes.boxes`."""

    source: int
    target: int
    title: str


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes and edges of a picture. The boxes have the order of computation, so no edge points backwards."""

    title: str
    boxes: list[Box]
    edges: list[Edge]


def boxes_of(printout: Printout, opened: Collection[str] = ()) -> Boxes:
    """Return the boxes of a printout. `opened` has the paths of submodules to unfold; their parents unfold too."""
    shown = _without_constants(printout.nodes)
    folded = _Folding(printout, shown, _with_ancestors(opened)).boxes()
    inputs = [Box(name, "", f"input {name}", "") for name in islice(_input_names(printout, folded), INPUTS_MAX)]
    boxes = [*inputs, *folded] or _notice_of_omission(printout)
    if printout.outputs:
        returned = ", ".join(printout.outputs)
        boxes.append(Box("return", returned, f"return {returned}", ""))
    title = " ".join(filter(None, [printout.kind, printout.method, printout.submodule]))
    return Boxes(shorten(title, TITLE_MAX), boxes, _Wiring(printout, boxes, len(inputs)).edges())


def _notice_of_omission(printout: Printout) -> list[Box]:
    """Return a box that says that nothing is drawn, with the end of the printout's text, which says why."""
    return [Box("not drawn", "see the text", printout.text[-TITLE_MAX:], "")] if printout.text else []


def _without_constants(nodes: Sequence[GraphNode]) -> list[int]:
    """Return the indices of the nodes to draw. Constants and attribute reads are left out: they would hide the rest."""
    constant: set[str] = set()
    shown = []
    for place, node in enumerate(nodes):
        is_list = node.operator.startswith(("prim::ListConstruct", "prim::TupleConstruct"))
        if node.operator.startswith(("prim::Constant", "prim::GetAttr")) or (
            is_list and constant.issuperset(node.inputs)
        ):
            constant.update(node.outputs)
        else:
            shown.append(place)
    return shown


def _input_names(printout: Printout, folded: Sequence[Box]) -> Iterator[str]:
    """Yield the inputs that some box uses, except a weight that only the folded box of its own submodule uses."""
    user: dict[str, Box | None] = {}  # None: several boxes use it
    for box in folded:
        for number in box.nodes:
            for name in printout.nodes[number].inputs:
                user[name] = box if user.get(name, box) is box else None
    returned = frozenset(printout.outputs)
    for name in dict.fromkeys(printout.inputs):
        if name in returned or (name in user and not _is_weight_of(name, user[name])):
            yield name


def _is_weight_of(name: str, user: Box | None) -> bool:
    return user is not None and bool(user.opens) and name.startswith(f"{user.opens}.")


def _with_ancestors(paths: Iterable[str]) -> set[str]:
    steps = [path.split(".")[:_STEPS_MAX] for path in dict.fromkeys(paths)]
    return {".".join(each[:end]) for each in steps for end in range(1, len(each) + 1)}


class _Folding:
    """One box per node or, where these would be too many, one box per run of nodes of the same submodule.

    Only neighbouring nodes are joined. So edges still point forwards, no cycle arises, and a submodule that is called
    twice gives two boxes.
    """

    def __init__(self, printout: Printout, shown: Sequence[int], opened: set[str]) -> None:
        self._nodes = printout.nodes
        self._shown = shown
        self._opened = opened
        self._above = len(_steps(printout.submodule))
        self._scopes = {place: _steps(self._nodes[place].scope) for place in shown}

    def boxes(self) -> list[Box]:
        if len(self._shown) <= READABLE_MAX:
            return [self._box_of([place]) for place in self._shown]
        depth, fold_own = self._readable()
        for own in dict.fromkeys([fold_own, True]):
            runs = self._runs(depth, self._opened, fold_own=own)
            if len(runs) <= BOXES_MAX:
                return [self._box_of(run, path) for path, run in runs]
        size = ceil(len(self._shown) / BOXES_MAX)
        return [self._box_of(self._shown[start : start + size]) for start in range(0, len(self._shown), size)]

    def _readable(self) -> tuple[int, bool]:
        """Return how deep submodules get boxes of their own, and whether nodes between their calls are joined."""
        deepest = min(_DEPTH_MAX, max(map(len, self._scopes.values())))
        overviews = [(depth, OVERVIEW_MAX) for depth in range(deepest, self._above, -1)]
        # Neighbours get separate boxes at every depth greater than that of their common submodule.
        neighbours = [(a == b, len(_common_steps([a, b]))) for a, b in pairwise(self._scopes.values())]
        apart = {
            False: sorted(depth for _, depth in neighbours),
            True: sorted(depth for is_same, depth in neighbours if not is_same),
        }
        for depth, most in [*overviews, (self._above + 1, READABLE_MAX)]:
            for fold_own in (False, True):
                if 1 < 1 + bisect_left(apart[fold_own], depth) <= most:
                    return depth, fold_own
        return self._above + 1, False

    def _runs(self, depth: int, opened: set[str], *, fold_own: bool) -> list[tuple[str, list[int]]]:
        def key(place: int) -> tuple[str, int]:
            steps = self._scopes[place]
            path = ".".join(steps[:depth])
            for step in steps[depth:]:
                if path not in opened:
                    break
                path = f"{path}.{step}"
            is_apart = path in opened or (len(steps) < depth and not fold_own)
            return path, place if is_apart else -1

        return [(path, list(run)) for (path, _), run in groupby(self._shown, key)]

    def _box_of(self, run: Sequence[int], path: str | None = None) -> Box:
        if len(run) == 1:
            return self._box_of_node(run[0])
        nodes = [self._nodes[place] for place in run]
        module = ".".join(_common_steps(self._scopes[place] for place in run)) if path is None else path
        how = [] if path is None else [f"open={path} shows them"]
        operators = sorted({node.operator for node in nodes})[:_OPERATORS_SHOWN]
        title = "\n".join([module, f"{len(run)} nodes", *how, *operators])
        return Box(module or "the model", f"{len(run)} nodes", title, module, list(run), path)

    def _box_of_node(self, place: int) -> Box:
        node = self._nodes[place]
        module = ".".join(self._scopes[place])
        where = f"{node.file}:{node.line}" if node.file else ""
        attributes = [f"{name} = {value}" for name, value in node.attributes.items()]
        parts = [node.operator, ", ".join(node.types), *attributes, module, where, node.source]
        type_ = _BESIDE_SHAPE.sub("", node.types[0]) if node.types else ""
        return Box(self._label(node), type_, "\n".join(filter(None, parts)), module, [place])

    def _label(self, node: GraphNode) -> str:
        # The first input of a call is the submodule that is called; the box gets its name.
        if node.operator == "prim::CallMethod" and node.inputs:
            return f"{node.inputs[0]}()"
        if (parent := _parent(self._nodes, node)) is None or node.operator not in ("prim::Param", "prim::Return"):
            return node.operator
        block = _BLOCKS.get((parent.operator, node.block or 0), f"block {node.block}")
        return block if node.operator == "prim::Param" else f"end of {block}"


class _Wiring:
    """Finds the edges: which box uses a value that another one makes.

    The end of a block makes its results; the boxes that use the outputs of the block's node use them. The backward edge
    of a loop is not drawn, because edges point downwards only.
    """

    def __init__(self, printout: Printout, boxes: Sequence[Box], inputs: int) -> None:
        self._nodes = printout.nodes
        self._boxes = boxes
        self._outputs = printout.outputs
        self._types = {
            name: type_ for node in printout.nodes for name, type_ in zip(node.outputs, node.types, strict=False)
        }
        self._given = {box.label: place for place, box in enumerate(boxes[:inputs])}
        self._makers: dict[str, int] = {}  # by value name, the node that makes it
        self._ends: dict[int, list[int]] = {}
        self._heads: dict[tuple[int | None, int | None], int] = {}
        self._place_of = {number: place for place, box in enumerate(boxes) for number in box.nodes}
        self._edges: dict[tuple[int, int], Edge] = {}

    def edges(self) -> list[Edge]:
        for place, box in enumerate(self._boxes):
            if len(self._edges) == EDGES_MAX:
                break
            for number in box.nodes:
                self._wire(number, place)
        for name in self._outputs:
            self._take(name, len(self._boxes) - 1)
        return list(self._edges.values())

    def _wire(self, number: int, place: int) -> None:
        node = self._nodes[number]
        block = (node.parent, node.block)
        for name in node.inputs:
            self._take(name, place)
        self._makers.update(dict.fromkeys(node.outputs, number))
        if (parent := _parent(self._nodes, node)) is None or node.parent is None:
            return
        if node.operator == "prim::Param":
            self._heads[block] = place
            self._connect(self._place_of.get(node.parent, place), place, parent.operator)
        elif all(self._block_of(name) != block for name in node.inputs):
            self._connect(self._heads.get(block, place), place, parent.operator)
        if node.operator == "prim::Return":
            self._end(node.parent, place)

    def _block_of(self, name: str) -> tuple[int | None, int | None] | None:
        if (number := self._makers.get(name)) is None:
            return None
        return self._nodes[number].parent, self._nodes[number].block

    def _end(self, number: int, place: int) -> None:
        ends = self._ends.setdefault(number, [])
        if place not in ends and len(ends) < _ENDS_MAX:
            ends.append(place)

    def _take(self, name: str, target: int) -> None:
        for source in self._sources(name):
            self._connect(source, target, name, self._types.get(name, ""))

    def _sources(self, name: str) -> Sequence[int]:
        number = self._makers.get(name)
        if number is None:
            return [self._given[name]] if name in self._given else []
        return self._ends.get(number) or [self._place_of[number]]

    def _connect(self, source: int, target: int, *titled: str) -> None:
        if source < target and (source, target) not in self._edges and len(self._edges) < EDGES_MAX:
            title = " : ".join(shorten(text, _VALUE_TITLE_MAX) for text in titled)
            self._edges[source, target] = Edge(source, target, title)


def shorten(text: str, most: int) -> str:
    """Return the text with at most `most` characters; if it is cut, it ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _parent(nodes: Sequence[GraphNode], node: GraphNode) -> GraphNode | None:
    """Return the node whose block this node is in; None if there is none, or if the place is forged."""
    return nodes[node.parent] if node.parent is not None and 0 <= node.parent < len(nodes) else None


def _common_steps(scopes: Iterable[Sequence[str]]) -> list[str]:
    """Return the steps with which all scopes begin."""
    steps = zip(*scopes, strict=False)
    common = []
    for each in steps:
        if len(set(each)) > 1:
            break
        common.append(each[0])
    return common


def _steps(scope: str) -> list[str]:
    """Split a path: `layer1.0` → layer1, 0. Artifacts of an earlier release have torch's form `__module.layer1.0`."""
    path = scope.rpartition("/")[2][:_PATH_MAX]
    return [step for step in path.split(".") if step and step != "__module"][:_STEPS_MAX]
