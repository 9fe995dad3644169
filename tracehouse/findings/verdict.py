"""The verdict, and the rule by which it follows from comparisons and findings."""

from collections.abc import Iterable
from enum import StrEnum

from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Weight, decides_alone


class Verdict(StrEnum):
    """How far the artifact is right. The verdicts are listed from the best to the worst.

    verified: the artifact agrees with the eager model on every input that both answered.
    self-consistent: there is no eager model. The artifact agrees with itself on every input that it answered.
    restricted: it disagrees outside a boundary that the contract states and enforces.
    rejected: it disagrees in a way that no boundary on the inputs excludes.
    """

    VERIFIED = "verified"
    SELF_CONSISTENT = "self-consistent"
    RESTRICTED = "restricted"
    REJECTED = "rejected"

    @property
    def rank(self) -> int:
        """The place in the order from the best to the worst: 0 is the best."""
        return [*Verdict].index(self)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of these verdicts. Raises ValueError for none."""
    return max(verdicts, key=lambda verdict: verdict.rank)


def verdict_of(comparisons: Iterable[Comparison], findings: Iterable[Finding]) -> Verdict:
    """Return the verdict that follows from all comparisons, and from the findings that weigh without one.

    A difference on inputs that the contract accepts rejects the artifact; a difference on other inputs restricts it.
    An artifact that was compared with itself is self-consistent at best.
    """
    kinds = {finding.kind for finding in findings}
    differing = [one for one in comparisons if not one.agrees]
    if any(one.in_contract for one in differing) or any(decides_alone(kind, Weight.REJECTS) for kind in kinds):
        return Verdict.REJECTED
    if differing or any(decides_alone(kind, Weight.RESTRICTS) for kind in kinds):
        return Verdict.RESTRICTED
    has_reference = not any(decides_alone(kind, Weight.LIMITS) for kind in kinds)
    return Verdict.VERIFIED if has_reference else Verdict.SELF_CONSISTENT
