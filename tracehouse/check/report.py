"""The report of a check that ran in this process: verdict, contract, findings and counterexamples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from tracehouse.artifact.manifest import Form, Versions
from tracehouse.contract.contract import WITHOUT_FAST_PATHS, Contract
from tracehouse.findings.comparison import inputs_sentence, outcome_lines
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.findings.verdict import Verdict
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.report.contract_lines import contract_lines
from tracehouse.report.counterexample_text import counterexample_line, shorten_array
from tracehouse.report.finding_text import INDENT, finding_lines, worth_reading, wrap
from tracehouse.report.markup import Html, code, section, table
from tracehouse.report.report import ReportPage, render_page
from tracehouse.report.report_source import weight_of

Arrays = Mapping[str, NDArray[Any]]

ONE_PROCESS = (
    "The check ran in the model's own process, and nothing outside of it has verified the answers: code that wants to "
    "can make it say anything. Submit the model to a Tracehouse service to have it verified by a second process."
)
_VERDICTS = {
    Verdict.VERIFIED: "The trace gave what the eager model gave on every input that was compared. The contract says "
    "for which inputs that is known.",
    Verdict.SELF_CONSISTENT: "The module is compiled already, so there is no eager model to compare it with. It agreed "
    "with itself on every input that was compared. Whether it is right for the model that it was made from is not "
    "known.",
    Verdict.RESTRICTED: "The trace is right within its contract. On other inputs that were asked for, or that the "
    "eager model takes, it is wrong or not known to be right.",
    Verdict.REJECTED: "The trace answers wrongly in a way that no boundary on its inputs excludes.",
}
_CONTRACT_NOTES = {
    Verdict.VERIFIED: "The inputs for which the trace is known to be right.",
    Verdict.SELF_CONSISTENT: "The inputs for which the module is known to agree with itself.",
    Verdict.RESTRICTED: "The inputs for which the trace is known to be right.",
    Verdict.REJECTED: "The inputs that the trace takes. It answers wrongly within that as well, as the findings say.",
}


@dataclass(frozen=True)
class LiveCounterexample:
    """A call on which the eager model and the trace differ, with its inputs and both answers.

    `inputs`, `eager` and `artifact` are NumPy arrays by the names of their leaves in the contract, each in the shape of
    its tensor. `artifact` is the error's text if the trace raised. A bfloat16 tensor becomes a float32 array, because
    NumPy lacks bfloat16.
    """

    method: str
    case: str
    difference: str
    inputs: Arrays
    eager: Arrays
    artifact: Arrays | str


@dataclass(frozen=True, repr=False)
class Report:
    """What a check in this process found out about the model `name`. `artifact` is the traced module itself.

    `sources` has the text of each file that a finding names. A finding's `counterexample` is a place, from 0, in
    `counterexamples`.
    """

    name: str
    check: TraceCheck
    contract: Contract
    counterexamples: Sequence[LiveCounterexample]
    artifact: torch.jit.ScriptModule
    form: Form
    training: bool
    sources: Mapping[str, str]
    versions: Versions

    @property
    def verdict(self) -> Verdict:
        """Whether the trace is right, as far as this process can tell."""
        return self.check.verdict

    @property
    def findings(self) -> list[Finding]:
        """What a person must know about the trace."""
        return self.check.findings

    def html(self) -> str:
        """Return the report as one page of HTML that loads nothing else."""
        versions = self.versions
        made_with = f"torch {versions.torch}, Python {versions.python}, Tracehouse {versions.tracehouse}"
        return render_page(
            ReportPage(
                title=f"Trace check of {self.name}",
                verdict_note=f"{_VERDICTS[self.verdict]} {ONE_PROCESS}",
                about=[
                    ("Made with", made_with),
                    ("Form", self.form),
                    ("Mode of the model", "train" if self.training else "eval"),
                ],
                contract=self.contract,
                contract_note=_CONTRACT_NOTES[self.verdict],
                check=self.check,
                counterexamples=[*self._counterexample_section()],
                sources=self.sources,
            )
        )

    def explain(self) -> str:
        """Return the verdict and why it is no better: causes with lines and remedies, and inputs that show them."""
        findings = [line for finding in worth_reading(self.findings) for line in finding_lines(finding)]
        return "\n".join([f"Trace check of {self.name}: {self._sentence}", *findings, *self._counterexample_lines()])

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    @property
    def _sentence(self) -> str:
        return verdict_sentence(self.check, self.contract, aside=", in this process alone")

    def _lines(self) -> Iterator[str]:
        yield from wrap(f"Trace check of {self.name}: {self._sentence}", 0)
        yield from wrap(f"{_VERDICTS[self.verdict]} No second process has verified this.", 1)
        for name, method in self.contract.methods.items():
            yield f"Contract of {name}"
            yield from (INDENT + line for line in contract_lines(method))
        if self.contract.without_fast_paths:
            yield f"Compared with the eager model {WITHOUT_FAST_PATHS}"
        yield from (f"Coverage: {covered}" for covered in self.check.coverage)
        yield from wrap(f"Compared: {inputs_sentence(self.check.samples)}", 0)
        for line in outcome_lines(self.check.comparisons):
            yield from wrap(f"Compared: {line}", 0)
        # What was found out about a line comes before what torch warned of there.
        by_source = sorted(self.findings, key=lambda finding: finding.kind == Kind.TRACER_WARNING)
        listed = [finding for finding in by_source if weight_of(finding) != "harmless"]
        harmless = len(self.findings) - len(listed)
        yield f"Findings: {len(listed)}" + (f", and {harmless} harmless" if harmless else "")
        for finding in listed:
            yield from finding_lines(finding)
        yield from self._counterexample_lines()

    def _counterexample_lines(self) -> Iterator[str]:
        if self.counterexamples:
            yield "Counterexamples"
        for number, one in enumerate(self.counterexamples):
            yield INDENT + counterexample_line(number, one.method, one.inputs, one.difference)

    def _counterexample_section(self) -> Iterator[Html]:
        if not self.counterexamples:
            return
        rows = [
            (number, f"{one.method}, {one.case}", _array_cell(one.inputs), _array_cell(one.eager),
             one.artifact if isinstance(one.artifact, str) else _array_cell(one.artifact), one.difference)
            for number, one in enumerate(self.counterexamples)
        ]  # fmt: skip
        headings = ("Number", "Call", "Inputs", "Eager model", "Artifact", "What differs")
        caption = "The smallest inputs found that the artifact answers wrongly"
        yield section("Counterexamples", table(caption, headings, rows), name="counterexamples")


def _array_cell(arrays: Arrays) -> Html:
    return Html("<br>".join(code(f"{name} = {shorten_array(array)}") for name, array in arrays.items()))
