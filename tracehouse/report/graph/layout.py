"""Layout: the place of each box in a picture and the route of each edge. What is computed first is at the top.

The method is Sugiyama's layered drawing (Sugiyama, Tagawa, Toda 1981), as igraph implements it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import igraph

from tracehouse.report.graph.boxes import Edge

# The layout reserves a place for an edge on each layer that the edge passes. Edges over more layers than this are drawn
# straight. Chosen.
SPAN_MAX = 60
# How many such places all edges together may have: with this many, a layout takes about a second. The shortest edges
# get theirs first.
_PLACES_MAX = 30_000

Place = tuple[float, float]  # column and layer, from 0 on; the layer grows downwards


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of each box, and the points of each edge's route, both ends included."""

    places: list[Place]
    routes: list[list[Place]]


def lay_out(boxes: int, edges: Sequence[Edge]) -> Layout:
    """Return the layout of this many boxes with these edges, which must point from a lower index to a higher one."""
    if boxes == 0:
        return Layout([], [])
    layers = _layers(boxes, edges)
    near = _short_edges(edges, layers)
    graph = igraph.Graph(boxes, [(edge.source, edge.target) for edge in near], directed=True)
    layout = graph.layout_sugiyama(layers=layers, maxiter=20)
    bends = dict(zip(near, layout.edge_routing, strict=True))
    left = min(x for x, _ in chain(layout.coords, *layout.edge_routing))
    places = [(x - left, y) for x, y in layout.coords]
    routes = [
        [places[edge.source], *((x - left, y) for x, y in bends.get(edge, ())), places[edge.target]] for edge in edges
    ]
    return Layout(places, routes)


def _layers(boxes: int, edges: Iterable[Edge]) -> list[int]:
    """Return each box's layer: below everything that it needs, or, if it needs nothing, just above its first use."""
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


def _short_edges(edges: Sequence[Edge], layers: Sequence[int]) -> list[Edge]:
    """Return the edges that are short enough to be routed through the layers."""

    def span(edge: Edge) -> int:
        return layers[edge.target] - layers[edge.source]

    by_span = sorted((edge for edge in edges if span(edge) <= SPAN_MAX), key=span)
    return by_span[: bisect_right(list(accumulate(map(span, by_span))), _PLACES_MAX)]
