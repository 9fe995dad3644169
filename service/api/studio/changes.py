"""Changes: what differs between two traces, of which the second one is of an edited source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tracehouse.artifact.manifest import Printout
from tracehouse.report.causes import Cause

# Chosen: more than a person reads.
_OPERATORS_MAX = 50


@dataclass(frozen=True, slots=True)
class Changes:
    """Causes that went away, came, and stayed; and how often each operator is in the two graphs, if that differs."""

    gone: list[Cause]
    new: list[Cause]
    kept: list[Cause]
    operators: list[tuple[str, int, int]]


def compare(
    before: Sequence[Cause], after: Sequence[Cause], graph_before: Printout | None, graph_after: Printout | None
) -> Changes:
    """Return what differs. A cause stays if its kind and the text of its line are the same, wherever that line is."""
    earlier, later = {_identity(one) for one in before}, {_identity(one) for one in after}
    return Changes(
        gone=[one for one in before if _identity(one) not in later],
        new=[one for one in after if _identity(one) not in earlier],
        kept=[one for one in after if _identity(one) in earlier],
        operators=_count(graph_before, graph_after),
    )


def _identity(cause: Cause) -> tuple[str, str]:
    return cause.lead.kind, (cause.lead.source or cause.lead.detail).strip()


def _count(before: Printout | None, after: Printout | None) -> list[tuple[str, int, int]]:
    """Return the operators that one of the graphs has more of; none if a graph is not at hand."""
    if before is None or after is None:
        return []
    counts = [Counter(node.operator for node in graph.nodes) for graph in (before, after)]
    names = sorted(counts[0].keys() | counts[1].keys())
    differing = [(name, counts[0][name], counts[1][name]) for name in names if counts[0][name] != counts[1][name]]
    return differing[:_OPERATORS_MAX]
