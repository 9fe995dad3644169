"""The graph as the studio draws it: boxes with their places, and with the lines of Python that made their nodes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from service.api.studio.source_view import File, known_lines, whole_file
from tracehouse.artifact.manifest import GraphNode, Printout
from tracehouse.report.graph.boxes import Box, boxes_of, shorten
from tracehouse.report.graph.layout import lay_out
from tracehouse.report.graph.svg import hue
from tracehouse.report.markup import reveal

# Chosen: more than a person reads in one box.
_LINES_MAX = 300
_NODES_MAX = 20
_TEXT_MAX = 500
_FILES_MAX = 50
_KNOWN_LINES_MAX = 5000

_Place = tuple[str, int]


def graph_view(printout: Printout, sources: Mapping[str, str], opened: Collection[str]) -> dict[str, Any]:
    """Return the picture and the files beside it as JSON. Of each line, the HTML is escaped; all else is plain text."""
    drawn = boxes_of(printout, opened)
    layout = lay_out(len(drawn.boxes), drawn.edges)
    return {
        "title": reveal(drawn.title),
        "nodes": len(printout.nodes),
        "boxes": [
            {**_describe(box, printout.nodes), "x": x, "y": y}
            for box, (x, y) in zip(drawn.boxes, layout.places, strict=True)
        ],
        "edges": [
            {"from": edge.source, "to": edge.target, "title": reveal(edge.title), "route": route}
            for edge, route in zip(drawn.edges, layout.routes, strict=True)
        ],
        "files": [_file(file) for file in _files(printout.nodes, sources)],
    }


def _describe(box: Box, nodes: Sequence[GraphNode]) -> dict[str, Any]:
    of_box = [nodes[number] for number in box.nodes]
    places = dict.fromkeys(place for node in of_box if (place := _place(node)) is not None)
    return {
        "label": reveal(box.label),
        "type": reveal(box.type),
        "module": reveal(box.module),
        "hue": hue(box.module) if box.module else None,
        "opens": box.opens,
        "count": len(box.nodes),
        "lines": list(places)[:_LINES_MAX],
        "nodes": [_node(node) for node in of_box[:_NODES_MAX]],
        "note": "" if of_box else reveal(shorten(box.title, _TEXT_MAX)),
    }


def _node(node: GraphNode) -> dict[str, Any]:
    return {
        "operator": _short(node.operator),
        "inputs": _short(", ".join(node.inputs[:_NODES_MAX])),
        "outputs": _short(", ".join(node.outputs[:_NODES_MAX])),
        "types": _short(", ".join(node.types[:_NODES_MAX])),
        "attributes": {_short(name): _short(value) for name, value in [*node.attributes.items()][:_NODES_MAX]},
        "module": _short(node.scope),
        "line": _place(node),
        "source": _short(node.source or ""),
    }


def _files(nodes: Sequence[GraphNode], sources: Mapping[str, str]) -> list[File]:
    """Return the files whose lines made nodes, then the other ones that were submitted."""
    named: dict[str, dict[int, str]] = {}
    for node in nodes:
        if (place := _place(node)) is not None:
            lines = named.setdefault(place[0], {})
            if len(lines) < _KNOWN_LINES_MAX:
                lines[place[1]] = node.source or ""
    ordered = [*(path for path in sources if path in named), *(path for path in named if path not in sources)]
    ordered += [path for path in sources if path not in named]
    return [
        whole_file(path, sources[path], named.get(path, ())) if path in sources else known_lines(path, named[path])
        for path in ordered[:_FILES_MAX]
    ]


def _file(file: File) -> dict[str, Any]:
    return {"path": file.path, "lines": [[line.number, line.html] for line in file.lines]}


def _place(node: GraphNode) -> _Place | None:
    return (node.file, node.line) if node.file is not None and node.line is not None else None


def _short(value: str) -> str:
    return reveal(shorten(value, _TEXT_MAX))
