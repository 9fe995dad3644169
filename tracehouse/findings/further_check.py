"""Findings of a further check: what it says of the contract that it went on from."""

from collections.abc import Sequence

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind

_CASES_NAMED_MAX = 10


def contract_kept(*, could_be_wider: bool) -> Finding:
    """Return the finding that the contract before stays as it is, though the new one accepts more or does not."""
    why = "what it found cannot be stated together with" if could_be_wider else "it found nothing to add to"
    return Finding(kind=Kind.CONTRACT_KEPT, detail=f"the check went on, and {why} the contract before, which stays")


def contract_refuted(cases: Sequence[str]) -> Finding:
    """Return the finding that the contract before accepts inputs that are answered wrongly, as these cases show."""
    named = ", ".join(cases[:_CASES_NAMED_MAX])
    return Finding(
        kind=Kind.CONTRACT_REFUTED,
        detail=f"the contract before accepts inputs that the archive answers wrongly: {named}",
        confirmed=True,
        evidence={"cases": [*cases[:_CASES_NAMED_MAX]]},
    )
