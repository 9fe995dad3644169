"""What two traces are compared by in the studio: causes, contract and graph."""

from collections.abc import Sequence

from service.api.printouts import read_printout
from service.storage.database import Store
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.printouts import EncodedPrintout
from tracehouse.errors import PrintoutNotFound
from tracehouse.report.causes import Cause
from tracehouse.report.changes import Traced


def traced_of(causes: Sequence[Cause], artifact: Artifact | None, graph: EncodedPrintout | None) -> Traced:
    """Return what is compared of a trace: without an artifact, its causes alone."""
    return Traced(causes, artifact.contract if artifact else None, graph.decode() if graph else None)


def read_inlined_graph(store: Store, tenant: str, digest: str) -> EncodedPrintout | None:
    """Return the graph of `forward`, which is compared; None if it was not kept."""
    try:
        return read_printout(store, tenant, digest, "inlined_graph", "forward", "")
    except PrintoutNotFound:
        return None
