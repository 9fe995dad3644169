"""A graph as a picture: the operators in layers, data flowing downwards."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate, chain, groupby, islice
from math import ceil
from zlib import crc32

import igraph

from service.domain.artifact import GraphNode, Printout

# More boxes than these nobody reads; neighbours of the same module are then drawn as one.
BOXES_MAX = 1500
# No model's graph has as many as these; one that was made up could have them by the million.
INPUTS_MAX = 500
EDGES_MAX = 4000

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 40, 24, 34, 20
_LABEL_MAX, _TITLE_MAX = 28, 1000
# A layout gives an edge a place on each layer that it passes: edges beyond this many are drawn straight across.
_SPAN_MAX = 60
# Over all edges: a layout takes a second for as many as these. The shortest ones are laid out.
_PLACES_MAX = 30_000
_DEPTH_MAX = 6

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# Of `Float(1, 2, strides=[2, 1], requires_grad=0, device=cpu)` the box has room for the shape.
_BESIDE_SHAPE = re.compile(r", (strides|requires_grad|device)=[^)]*")

_STYLE = (
    "text{font:12px ui-monospace,monospace;text-anchor:middle;fill:#1b1f24}"
    "text.type{font-size:10px;fill:#57606a}"
    "path{fill:none;stroke:#8c959f;marker-end:url(#tip)}"
    "path.far{stroke-dasharray:4 4}"
    "rect.box{stroke-width:1.2}"
)


@dataclass(slots=True)
class _Box:
    label: str
    type: str
    title: str
    module: str
    nodes: list[GraphNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Edge:
    source: int
    target: int
    title: str


def draw(printout: Printout) -> str:
    """Well-formed SVG, whatever the model named its values and files."""
    boxes, edges = _boxes_and_edges(printout)
    layers = _layers(len(boxes), edges)
    places, routes = _laid_out(len(boxes), edges, layers)
    width = max((x for x, _ in places), default=0) + _BOX_WIDTH + 2 * _MARGIN
    height = max((y for _, y in places), default=0) + _BOX_HEIGHT + 2 * _MARGIN
    title = " ".join(filter(None, [printout.kind, printout.method, printout.submodule]))
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" ',
            f'viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" role="img">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" ',
            'orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8c959f;stroke:none;marker-end:none"/></marker></defs>',
            f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="#fff"/>',
            *(_drawn_edge(edge, route) for edge, route in zip(edges, routes, strict=True)),
            *(_drawn_box(box, *place) for box, place in zip(boxes, places, strict=True)),
            "</svg>",
        ]
    )


def _boxes_and_edges(printout: Printout) -> tuple[list[_Box], list[_Edge]]:
    shown = _without_constants(printout.nodes)
    types = {
        name: _short(type_, _TITLE_MAX)
        for node in printout.nodes
        for name, type_ in zip(node.outputs, node.types, strict=False)
    }
    used = {name for node in shown for name in node.inputs} | set(printout.outputs)
    named = dict.fromkeys(name for name in printout.inputs if name in used)
    inputs = [_Box(name, "", f"input {name}", "", []) for name in islice(named, INPUTS_MAX)]
    boxes = [*inputs, *_folded(shown)] or _left_out(printout)
    producer = {box.label: place for place, box in enumerate(inputs)}
    edges: dict[tuple[int, int], _Edge] = {}

    def connect(name: str, target: int) -> None:
        source = producer.get(name, target)
        if source != target and (source, target) not in edges and len(edges) < EDGES_MAX:
            title = f"{_short(name, _TITLE_MAX)} : {types.get(name, '')}"
            edges[source, target] = _Edge(source, target, title)

    for place, box in enumerate(boxes):
        for node in box.nodes:
            for name in node.inputs:
                connect(name, place)
            producer.update(dict.fromkeys(node.outputs, place))
    if printout.outputs:
        returned = ", ".join(printout.outputs)
        boxes.append(_Box("return", returned, f"return {returned}", "", []))
        for name in printout.outputs:
            connect(name, len(boxes) - 1)
    return boxes, list(edges.values())


def _left_out(printout: Printout) -> list[_Box]:
    """Where a printout was too large to be kept whole, its text says so."""
    return [_Box("not drawn", "see the text", printout.text[-_TITLE_MAX:], "")] if printout.text else []


def _without_constants(nodes: Iterable[GraphNode]) -> list[GraphNode]:
    """Strides, paddings, and the way to a weight are in the text; as boxes they would hide the operators."""
    constant: set[str] = set()
    shown = []
    for node in nodes:
        is_list = node.operator.startswith(("prim::ListConstruct", "prim::TupleConstruct"))
        if node.operator.startswith(("prim::Constant", "prim::GetAttr")) or (
            is_list and constant.issuperset(node.inputs)
        ):
            constant.update(node.outputs)
        else:
            shown.append(node)
    return shown


def _folded(nodes: Sequence[GraphNode]) -> list[_Box]:
    """One box per node; where these are too many, one per run of nodes of the same module.

    Only neighbours are joined: edges between runs point forwards as those between nodes do, so that no cycle arises.
    """
    if len(nodes) <= BOXES_MAX:
        return [_box_of(node) for node in nodes]
    placed = [(_module(node.scope), node) for node in nodes]
    for depth in range(_DEPTH_MAX, 0, -1):
        by_module = groupby(placed, lambda each: each[0][:depth])  # noqa: B023
        runs = [[node for _, node in run] for _, run in by_module]
        if len(runs) <= BOXES_MAX:
            return [_box_of_run(run) for run in runs]
    size = ceil(len(nodes) / BOXES_MAX)
    return [_box_of_run(nodes[start : start + size]) for start in range(0, len(nodes), size)]


def _box_of(node: GraphNode) -> _Box:
    where = f"{node.file}:{node.line}" if node.file else ""
    title = "\n".join(filter(None, [node.operator, ", ".join(node.types), node.scope, where, node.source]))
    # A call's first input is the submodule that is called: it bears its name.
    label = f"{node.inputs[0]}()" if node.operator == "prim::CallMethod" and node.inputs else node.operator
    type_ = _BESIDE_SHAPE.sub("", node.types[0]) if node.types else ""
    return _Box(label, type_, title, ".".join(_module(node.scope)[:1]), [node])


def _box_of_run(run: Sequence[GraphNode]) -> _Box:
    modules = [_module(node.scope) for node in run]
    name = ".".join(step for steps in zip(*modules, strict=False) if len(set(steps)) == 1 for step in steps[:1])
    title = "\n".join([name, f"{len(run)} nodes", *sorted({node.operator for node in run})[:20]])
    return _Box(name or "…", f"{len(run)} nodes", title, ".".join(modules[0][:1]), list(run))


def _module(scope: str) -> list[str]:
    """`__module.layer1/__module.layer1.0` → layer1, 0: the last name is the whole path."""
    return [step for step in scope.rpartition("/")[2].split(".") if step and step != "__module"]


def _layers(boxes: int, edges: Iterable[_Edge]) -> list[int]:
    """Each box below all that it needs; one that needs nothing, just above its first use."""
    layers = [0] * boxes
    uses: dict[int, list[int]] = {}
    fed = set()
    for edge in sorted(edges, key=lambda edge: edge.target):
        layers[edge.target] = max(layers[edge.target], layers[edge.source] + 1)
        uses.setdefault(edge.source, []).append(edge.target)
        fed.add(edge.target)
    for source, targets in uses.items():
        if source not in fed:
            layers[source] = min(layers[target] for target in targets) - 1
    return layers


Place = tuple[float, float]


def _laid_out(boxes: int, edges: Sequence[_Edge], layers: Sequence[int]) -> tuple[list[Place], list[list[Place]]]:
    """A place for each box, and for each edge the points that it passes."""
    if boxes == 0:
        return [], []
    near = _near(edges, layers)
    graph = igraph.Graph(boxes, [(edge.source, edge.target) for edge in near], directed=True)
    layout = graph.layout_sugiyama(layers=list(layers), maxiter=20)
    bends = dict(zip(near, layout.edge_routing, strict=True))
    left = min(x for x, _ in chain(layout.coords, *layout.edge_routing))

    def place(x: float, y: float) -> Place:
        return (x - left) * (_BOX_WIDTH + _GAP_X), y * (_BOX_HEIGHT + _GAP_Y)

    places = [place(*point) for point in layout.coords]
    return places, [
        [places[edge.source], *(place(*point) for point in bends.get(edge, ())), places[edge.target]] for edge in edges
    ]


def _near(edges: Sequence[_Edge], layers: Sequence[int]) -> list[_Edge]:
    """Those that the layout finds a way for."""

    def span(edge: _Edge) -> int:
        return layers[edge.target] - layers[edge.source]

    by_span = sorted((edge for edge in edges if span(edge) <= _SPAN_MAX), key=span)
    return by_span[: bisect_right(list(accumulate(map(span, by_span))), _PLACES_MAX)]


def _drawn_edge(edge: _Edge, route: Sequence[Place]) -> str:
    path = "".join(_steps(route))
    far = ' class="far"' if abs(route[-1][1] - route[0][1]) > _SPAN_MAX * (_BOX_HEIGHT + _GAP_Y) else ""
    return f'<path{far} d="{path}"><title>{_text(_short(edge.title, _TITLE_MAX))}</title></path>'


def _steps(route: Sequence[Place]) -> Iterator[str]:
    """From the lower edge of a box to the upper edge of another, upright where it meets a layer."""
    middle = _BOX_WIDTH / 2
    x, y = route[0][0] + middle, route[0][1] + _BOX_HEIGHT
    yield f"M{x:.0f} {y:.0f}"
    for place, (left, next_y) in enumerate(route[1:], start=2):
        bend, next_x = (y + next_y) / 2, left + middle
        yield f"C{x:.0f} {bend:.0f} {next_x:.0f} {bend:.0f} {next_x:.0f} {next_y:.0f}"
        x, y = next_x, next_y + _BOX_HEIGHT
        if place < len(route):
            yield f"V{y:.0f}"


def _drawn_box(box: _Box, x: float, y: float) -> str:
    hue = crc32(box.module.encode(errors="replace")) % 360
    fill, stroke = (f"hsl({hue},65%,92%)", f"hsl({hue},45%,55%)") if box.module else ("#f6f8fa", "#8c959f")
    middle = x + _BOX_WIDTH / 2
    lines = [
        f'<text x="{middle:.0f}" y="{y + (17 if box.type else 24):.0f}">{_text(_short(box.label, _LABEL_MAX))}</text>'
    ]
    if box.type:
        lines.append(
            f'<text class="type" x="{middle:.0f}" y="{y + 31:.0f}">{_text(_short(box.type, _LABEL_MAX))}</text>'
        )
    return (
        f"<g><title>{_text(_short(box.title, _TITLE_MAX))}</title>"
        f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"/>{"".join(lines)}</g>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("", text))
