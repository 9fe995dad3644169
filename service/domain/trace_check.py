"""The trace check: everything that was compared, what differed, by how much, and where in the source."""

from enum import StrEnum

from pydantic import JsonValue

from service.domain.frozen import Frozen


class Verdict(StrEnum):
    """verified: it agrees with the eager model wherever both were asked.
    restricted: it disagrees outside a boundary that the contract states and enforces.
    rejected: it disagrees in a way that no boundary on the inputs excludes.
    """

    VERIFIED = "verified"
    RESTRICTED = "restricted"
    REJECTED = "rejected"


class Comparison(Frozen):
    """One call of the eager model and of the artifact on the same inputs.

    `case` is "example", "check_inputs[0]" or a probe such as "probe: zeros"; `largest_difference` is the largest
    absolute difference over all output leaves, None where they cannot be subtracted.
    """

    method: str
    case: str
    in_contract: bool
    agrees: bool
    largest_difference: float | None = None
    difference: str | None = None


class Finding(Frozen):
    """Something about the trace that a person must know: what, which line, how it is known, what to write instead."""

    kind: str
    detail: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    confirmed: bool | None = None
    evidence: dict[str, JsonValue] = {}
    remedy: str | None = None


class TorchCheck(Frozen):
    """What torch's own check said: it compares a second trace's graph and top-level outputs."""

    ran: bool
    passed: bool | None = None
    message: str | None = None


class TraceCheck(Frozen):
    """`tolerance` is the relative one of every comparison here, and of the golden cases when they are replayed."""

    verdict: Verdict
    tolerance: float = 1e-5
    comparisons: list[Comparison]
    findings: list[Finding]
    torch: TorchCheck

    @property
    def largest_difference(self) -> float:
        """Over all comparisons that count: those inside the contract."""
        return max((c.largest_difference or 0.0 for c in self.comparisons if c.in_contract), default=0.0)
