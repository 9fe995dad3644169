"""The check record: the comparisons and findings that a verification gathers, and the trace check made of them."""

from collections import Counter

from service.protocol.bounds import cut_check
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.differential.comparison import ComparisonResult, Difference, Outcome
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.findings import coverage, differences
from tracehouse.findings.comparison import Comparison, comparison_of, count_samples
from tracehouse.findings.duplicates import repeats
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import SAID_FIRST
from tracehouse.findings.source_lines import GRAPHS_DIFFER, list_candidates, only_blamed
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.findings.verdict import Verdict, verdict_of, worst
from tracehouse.spec.trace_spec import TraceSpec

# An example that only agrees with limits is a golden case all the same: it is replayed with the tolerance at which it
# agreed, times this. Chosen.
_ROOM = 2.0


class CheckRecord:
    """Gathers what was compared. `claimed` is the tracing child's check, which can make the verdict only worse."""

    def __init__(self, spec: TraceSpec, claimed: TraceCheck) -> None:
        self._spec = spec
        self._claimed = claimed
        self._comparisons: list[Comparison] = []
        self._findings: list[Finding] = []
        self._served: Counter[str] = Counter()
        self._example_tolerance = 0.0

    def served_comparisons(self, method: str) -> int:
        """Return how many runs of the method's served form were recorded."""
        return self._served[method]

    def add_run(
        self, run: DifferentialRun, comparisons: FormComparisons, case: str | None = None, *, in_contract: bool
    ) -> None:
        """Record the comparison of each form, under the run's case or another one, and a finding if one differs."""
        method, case = run.method, case or run.case
        self.add_comparison(method, case, comparisons.served, in_contract=in_contract)
        self._served[method] += 1
        if run.case == EXAMPLE and comparisons.served.outcome is Outcome.LIMITED:
            self._example_tolerance = min(1.0, max(self._example_tolerance, _ROOM * comparisons.served.relative))
        as_traced = comparisons.as_traced or comparisons.served
        if comparisons.as_traced is not None:
            self.add_comparison(method, f"{case}, as traced", comparisons.as_traced, in_contract=in_contract)
        if as_traced.difference is not None:
            self.add_finding(self._output_differs(method, case, as_traced.difference, in_contract=in_contract))
        elif comparisons.served.difference is not None:
            form = self._spec.options.served_form
            assert form is not None  # or it would be the same that differs
            self.add_finding(differences.served_form_differs(method, case, comparisons.served.difference, form))

    def add_comparison(self, method: str, case: str, compared: ComparisonResult, *, in_contract: bool) -> None:
        self._comparisons.append(comparison_of(method, case, compared, in_contract=in_contract))
        if compared.without_float64 is not None:
            self.add_finding(coverage.rounding_not_measured(method, case, compared.without_float64))

    def add_finding(self, finding: Finding) -> None:
        """Record the finding, unless one of the method says the same: the tracing child's knows more of the lines."""
        known = [*self._claimed.findings, *self._findings]
        if not any(repeats(other, finding) for other in known):
            self._findings.append(finding)

    def append_finding(self, finding: Finding) -> None:
        """Record the finding, whatever is known."""
        self._findings.append(finding)

    def _output_differs(self, method: str, case: str, difference: Difference, *, in_contract: bool) -> Finding:
        """Return the finding of a difference, at the line that is known to be wrong, if there is one alone."""
        known = self._claimed.findings
        finding = differences.output_differs(method, case, difference, in_contract=in_contract)
        blamed = only_blamed(known, method)
        if blamed is None:
            return differences.leave_line_open(finding, list_candidates(known))
        line = {"file": blamed.file, "line": blamed.line, "source": blamed.source}
        known_by = str(blamed.evidence.get("line_known_by", GRAPHS_DIFFER))
        return differences.blame_line(finding, line, known_by, reads_value="read" in blamed.evidence)

    def check(self) -> TraceCheck:
        """Return the trace check, as short as a check may be."""
        claimed = self._claimed
        findings = [*self._findings, *claimed.findings]  # of too many, the last are cut
        findings.sort(key=lambda finding: finding.kind not in SAID_FIRST)
        advised = [differences.with_better_remedy(one, findings, self._spec) for one in findings]
        verdicts = [verdict_of(self._comparisons, advised), claimed.verdict]
        if self._spec.source.archive is not None:  # whatever the child says of it
            verdicts.append(Verdict.SELF_CONSISTENT)
        return cut_check(
            TraceCheck(
                verdict=worst(verdicts),
                tolerance=max(self._spec.check.tolerance, self._example_tolerance),
                comparisons=self._comparisons,
                findings=advised,
                torch=claimed.torch,
                layers=claimed.layers,
                budget_s=claimed.budget_s,
                budget=self._spec.check.budget,
                samples=count_samples(self._comparisons),
                memory=claimed.memory,
            )
        )
