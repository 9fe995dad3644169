"""The part of the studio that shows a graph beside the source."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from service.api.printouts import read_printout
from service.api.studio.graph_view import graph_view
from service.api.studio.sources import submitted_sources
from service.storage.database import Store
from tracehouse.artifact.manifest import GraphKind
from tracehouse.artifact.printouts import EncodedPrintout
from tracehouse.errors import PrintoutNotFound


@dataclass(frozen=True, slots=True)
class GraphPart:
    """A graph as it is kept, and the source beside it."""

    encoded: EncodedPrintout
    sources: dict[str, str]


def read_graph(
    store: Store, tenant: str, request_id: str, chosen: int, kind: GraphKind, method: str, submodule: str
) -> GraphPart:
    """Return a graph of one of a trace request's artifacts. Raises PrintoutNotFound."""
    status = store.trace_requests.status(tenant, request_id)
    if not status.artifacts:
        raise PrintoutNotFound("the trace request has no artifact, so it has no graph", kind=kind)
    digest = status.artifacts[min(chosen, len(status.artifacts) - 1)].digest
    encoded = read_printout(store, tenant, digest, kind, method, submodule)
    return GraphPart(encoded, submitted_sources(store, tenant, request_id, store.artifacts.get(tenant, digest)))


def render_graph(graph: GraphPart, opened: Sequence[str]) -> bytes:
    """Return the boxes with their places, and the source, as JSON. Layers that are `opened` show their nodes."""
    return orjson.dumps(graph_view(graph.encoded.decode(), graph.sources, opened))
