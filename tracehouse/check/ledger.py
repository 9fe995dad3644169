"""The ledger: the comparisons of the eager model and the artifact, and their findings, in the order of the calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracehouse.differential.offered_cases import CASE_NAME_MAX_CHARACTERS, CASES_MAX, CASES_MAX_BYTES
from tracehouse.eager.call import Call
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding

# So many of the probes that agreed are offered as golden cases. One is enough, because the random inputs that the
# verification draws show more.
AGREEING_OFFERED = 1


@dataclass(frozen=True)
class OfferedCall:
    """A call that the verification should compare again; `agrees` is whether the check found no difference."""

    name: str
    call: Call
    agrees: bool


@dataclass
class Ledger:
    """The entries so far. They are appended as the calls are made, so that they stay if submitted code raises later.

    `differing` has the call of each finding that answers differ, by its kind and method. `random_methods` are the
    methods that drew a random number in some call, and `stochastic_methods` those of which the artifact drew one.
    """

    comparisons: list[Comparison] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    probes: list[OfferedCall] = field(default_factory=list)
    differing: dict[tuple[str, str], Call] = field(default_factory=dict)
    random_methods: set[str] = field(default_factory=set)
    stochastic_methods: set[str] = field(default_factory=set)

    def has(self, kind: str, method: str) -> bool:
        """Whether there is a finding of this kind on the method."""
        return any(finding.kind == kind and finding.evidence["method"] == method for finding in self.findings)


def select_offered(calls: Sequence[OfferedCall]) -> list[OfferedCall]:
    """Return the calls that disagreed, then at most AGREEING_OFFERED that agreed.

    A call is left out if its name, its bytes or their number would exceed the bounds in `offered_cases`.
    """
    agreeing = [one for one in calls if one.agrees][:AGREEING_OFFERED]
    offered: list[OfferedCall] = []
    left_bytes = CASES_MAX_BYTES
    for one in [one for one in calls if not one.agrees] + agreeing:
        byte_size = one.call.byte_size
        if len(offered) < CASES_MAX and byte_size <= left_bytes and len(one.name) <= CASE_NAME_MAX_CHARACTERS:
            offered.append(one)
            left_bytes -= byte_size
    return offered
