"""The trace check: everything that was compared, what differed, by how much, and where in the source."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field, JsonValue

from service.domain.frozen import Frozen


class Verdict(StrEnum):
    """verified: it agrees with the eager model wherever both were asked.
    restricted: it disagrees outside a boundary that the contract states and enforces.
    rejected: it disagrees in a way that no boundary on the inputs excludes.
    """

    VERIFIED = "verified"
    RESTRICTED = "restricted"
    REJECTED = "rejected"


# Findings of these kinds reject a trace by themselves.
UNSOUND = frozenset({"nondeterministic", "hidden-state", "fresh-inputs-refused"})


class Comparison(Frozen):
    """One call of the eager model and of the artifact on the same inputs.

    `case` is "example", "check_inputs[0]", a probe such as "probe: zeros", or "fresh 1" for inputs that were drawn when
    the artifact was there already; `largest_difference` is the largest absolute difference over all output leaves, null
    where they cannot be subtracted.
    """

    method: str
    case: str
    in_contract: bool = Field(description="Whether the contract takes these inputs. Elsewhere a difference restricts.")
    agrees: bool
    largest_difference: float | None = None
    difference: str | None = Field(None, description="The first output leaf that differs, and how.")


class Finding(Frozen):
    """Something about the trace that a person must know: what, which line, how it is known, what to write instead."""

    kind: str = Field(description="Its stable name, such as `tracer-warning` or `output-differs`.")
    detail: str
    file: str | None = Field(None, description="Of the source, or of a library that it uses.")
    line: int | None = None
    source: str | None = Field(None, description="The text of that line.")
    confirmed: bool | None = Field(None, description="True where inputs were found that show it; null where unknown.")
    evidence: dict[str, JsonValue] = Field({}, description="What shows it: the method, the output, what each gave.")
    remedy: str | None = Field(None, description="What to write instead.")


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


def verdict_of(comparisons: Iterable[Comparison], findings: Iterable[Finding]) -> Verdict:
    """A difference on inputs that the contract takes rejects the trace; one on other inputs restricts it."""
    differing = [one for one in comparisons if not one.agrees]
    if any(one.in_contract for one in differing) or any(finding.kind in UNSOUND for finding in findings):
        return Verdict.REJECTED
    return Verdict.RESTRICTED if differing else Verdict.VERIFIED
