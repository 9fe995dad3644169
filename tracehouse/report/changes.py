"""Changes: what differs between two traces: of a source and its edit, or of two versions of a model."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracehouse.artifact.manifest import Printout
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.dims import format_shape
from tracehouse.report.causes import Cause
from tracehouse.report.free_sizes import free_sizes

# How many clauses, and how many operators, are shown. Chosen: more than a person reads.
_SHOWN_MAX = 50
_NONE = "–"


@dataclass(frozen=True, slots=True)
class Changes:
    """Causes that went away, came, and stayed; and what differs in the two contracts and graphs.

    A clause has its name, and its words before and after; an operator, how often it is in the two graphs.
    """

    gone: list[Cause]
    new: list[Cause]
    kept: list[Cause]
    clauses: list[tuple[str, str, str]]
    operators: list[tuple[str, int, int]]
    has_graphs: bool


@dataclass(frozen=True, slots=True)
class Traced:
    """What is compared of a trace; a request that came to no artifact has no contract and no graph."""

    causes: Sequence[Cause]
    contract: Contract | None
    graph: Printout | None


def compare(before: Traced, after: Traced, most: int | None = _SHOWN_MAX) -> Changes:
    """Return what differs, with at most so many clauses and operators; None means all.

    A cause stays if its kind and the text of its line are the same, wherever that line is.
    """
    earlier, later = {_identity(one) for one in before.causes}, {_identity(one) for one in after.causes}
    return Changes(
        gone=[one for one in before.causes if _identity(one) not in later],
        new=[one for one in after.causes if _identity(one) not in earlier],
        kept=[one for one in after.causes if _identity(one) in earlier],
        clauses=_differing(before.contract, after.contract)[:most],
        operators=_count(before.graph, after.graph)[:most],
        has_graphs=before.graph is not None and after.graph is not None,
    )


def _identity(cause: Cause) -> tuple[str, str]:
    return cause.lead.kind, (cause.lead.source or cause.lead.detail).strip()


def _differing(before: Contract | None, after: Contract | None) -> list[tuple[str, str, str]]:
    """Return the clauses that differ, in the order of the contracts."""
    was, now = dict(_clauses(before)), dict(_clauses(after))
    names = dict.fromkeys([*was, *now])
    return [(name, was.get(name, _NONE), now.get(name, _NONE)) for name in names if was.get(name) != now.get(name)]


def _clauses(contract: Contract | None) -> Iterator[tuple[str, str]]:
    for name, method in contract.methods.items() if contract is not None else ():
        for at in method.by_ranks:
            ranks = "" if at.ranks == method.ranks else f", ranks {' '.join(map(str, at.ranks.values()))}"
            yield from ((f"{name}{ranks}, {clause}", words) for clause, words in _clauses_of(at))


def _clauses_of(method: MethodContract) -> Iterator[tuple[str, str]]:
    for spec in method.inputs:
        yield spec.name, f"{' or '.join(spec.accepted_datatypes)} {format_shape(spec.shape)}"
    for row in free_sizes(method):
        yield (row.name if row.is_values else f"size {row.name}"), row.words
        if row.together_up_to is not None:
            yield f"rows along {row.name} that are answered together", f"up to {row.together_up_to:,}"
    for output in method.outputs:
        # An input may have an output's name.
        yield f"returned {output.name}", f"{output.datatype_text} {format_shape(output.shape_in_words)}"


def _count(before: Printout | None, after: Printout | None) -> list[tuple[str, int, int]]:
    """Return the operators that one of the graphs has more of; none if a graph is not at hand."""
    if before is None or after is None:
        return []
    counts = [Counter(node.operator for node in graph.nodes) for graph in (before, after)]
    names = sorted(counts[0].keys() | counts[1].keys())
    return [(name, counts[0][name], counts[1][name]) for name in names if counts[0][name] != counts[1][name]]
