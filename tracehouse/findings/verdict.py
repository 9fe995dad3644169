"""The verdict, and the rule by which it follows from comparisons and findings."""

from collections.abc import Iterable
from enum import StrEnum

from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Weight, decides_alone


class Verdict(StrEnum):
    """How far the artifact is right.

    verified: the artifact agrees with the eager model on every input that both answered.
    restricted: it disagrees outside a boundary that the contract states and enforces.
    rejected: it disagrees in a way that no boundary on the inputs excludes.
    """

    VERIFIED = "verified"
    RESTRICTED = "restricted"
    REJECTED = "rejected"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of these verdicts, which `Verdict` lists from best to worst. Raises ValueError for none."""
    return max(verdicts, key=[*Verdict].index)


def verdict_of(comparisons: Iterable[Comparison], findings: Iterable[Finding]) -> Verdict:
    """Return the verdict that follows from all comparisons, and from the findings that weigh without one.

    A difference on inputs that the contract accepts rejects the artifact; a difference on other inputs restricts it.
    """
    kinds = {finding.kind for finding in findings}
    differing = [one for one in comparisons if not one.agrees]
    if any(one.in_contract for one in differing) or any(decides_alone(kind, Weight.REJECTS) for kind in kinds):
        return Verdict.REJECTED
    restricts = differing or any(decides_alone(kind, Weight.RESTRICTS) for kind in kinds)
    return Verdict.RESTRICTED if restricts else Verdict.VERIFIED
