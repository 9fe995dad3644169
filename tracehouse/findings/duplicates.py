"""Duplicates: whether a finding says anything that a known one does not."""

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import BAKED, Kind

# A model that answers differently each time also differs from its artifact each time that the two are compared.
_UNREPEATABLE = {Kind.NONDETERMINISTIC, Kind.HIDDEN_STATE}
# Which known findings explain a difference, by the kind of the difference.
_EXPLAINED_BY = {
    Kind.OUTPUT_DIFFERS: _UNREPEATABLE,
    Kind.OUTPUT_DIFFERS_ELSEWHERE: _UNREPEATABLE | BAKED,
}
# A method may have several of these, each about another region or another end of a range.
_REPEATED_IF_EQUAL = {Kind.SIZES_REFUSED, Kind.RANGE_REFUSED}


def repeats(known: Finding, finding: Finding) -> bool:
    """Whether `finding` says nothing new once `known` was reported.

    For each method, one finding of a kind is enough. A difference needs no finding if a known finding explains it.
    """
    if known.evidence.get("method") != finding.evidence.get("method"):
        return False
    if finding.kind == Kind.CHECK_INPUT_REFUSED:
        return known.kind == finding.kind and known.evidence.get("case") == finding.evidence.get("case")
    if finding.kind in _REPEATED_IF_EQUAL:
        return known == finding
    if finding.kind == known.kind == Kind.HIDDEN_STATE and known.line is None and finding.line is not None:
        return False  # it names the line that an answer alone did not show
    return known.kind == finding.kind or any(
        known.kind in explaining for kind, explaining in _EXPLAINED_BY.items() if finding.kind == kind
    )
