"""A graph in the language of Graphviz: the boxes of the picture, each submodule a cluster."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tracehouse.artifact.manifest import Printout
from tracehouse.report.graph.boxes import TITLE_MAX, Box, boxes_of, shorten
from tracehouse.report.graph.svg import Link, hue
from tracehouse.report.markup import reveal

_LABEL_MAX = 100
_CLUSTERS_DEEP_MAX = 20

# In a label, Graphviz replaces `\N` and `\l`.
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(slots=True)
class _Cluster:
    path: str
    boxes: list[int] = field(default_factory=list)
    inside: dict[str, "_Cluster"] = field(default_factory=dict)


def write(printout: Printout, opened: Collection[str] = (), link: Link | None = None) -> str:
    """Return well-formed DOT, whatever names the printout has. With `link`, each folded box has a URL."""
    drawn = boxes_of(printout, opened)
    edges = [f"  n{edge.source} -> n{edge.target} [tooltip={_text(edge.title)}];" for edge in drawn.edges]
    return "\n".join(
        [
            f"digraph {_text(drawn.title)} {{",
            '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="monospace", fontsize=10];',
            '  graph [fontname="monospace", fontsize=10, style="rounded", color="#8c959f"];',
            *_statements(drawn.boxes, _cluster_boxes(drawn.boxes), link),
            *edges,
            "}\n",
        ]
    )


def _cluster_boxes(boxes: list[Box]) -> _Cluster:
    outermost = _Cluster("")
    for place, box in enumerate(boxes):
        # A folded submodule belongs to the cluster of its parent.
        path = box.module.rpartition(".")[0] if box.opens is not None else box.module
        cluster = outermost
        for step in path.split(".")[:_CLUSTERS_DEEP_MAX] if path else []:
            within = f"{cluster.path}.{step}" if cluster.path else step
            cluster = cluster.inside.setdefault(step, _Cluster(within))
        cluster.boxes.append(place)
    return outermost


def _statements(boxes: list[Box], cluster: _Cluster, link: Link | None, margin: str = "  ") -> Iterator[str]:
    for place in cluster.boxes:
        yield f"{margin}n{place} [{', '.join(_attributes(boxes[place], link))}];"
    for inner in cluster.inside.values():
        # Graphviz draws a subgraph as a cluster if its name begins with `cluster`; the path makes the name unique.
        yield f"{margin}subgraph {_text(f'cluster_{inner.path}')} {{"
        yield f"{margin}  label={_text(shorten(inner.path, _LABEL_MAX))};"
        yield from _statements(boxes, inner, link, margin + "  ")
        yield f"{margin}}}"


def _attributes(box: Box, link: Link | None) -> Iterator[str]:
    lines = "\n".join(shorten(line, _LABEL_MAX) for line in (box.label, box.type) if line)
    yield f"label={_text(lines)}"
    yield f"tooltip={_text(shorten(box.title, TITLE_MAX))}"
    if box.module:
        yield f'fillcolor="{hue(box.module) / 360:.3f} 0.08 1.0"'
    if link is not None and box.opens is not None:
        yield f"URL={_text(link(box.opens))}"


def _text(text: str) -> str:
    return f'"{reveal(text).translate(_ESCAPED)}"'
