"""Counterexamples: the smallest calls on which an artifact differs from its model, one for each cause.

Each is stored as arrays that numpy reads, and as a pytest file that shows the difference with torch alone.
"""

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import is_counterexample, shows_sizes, shows_value_read
from tracehouse.differential.comparison import Answer, Difference
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.tensors.tensor import Datatype, Tensor, array

COUNTEREXAMPLES_MAX = 4  # chosen: more than a person looks at

# The kinds of findings that a difference at the example's sizes shows, and those that one at other sizes shows.
_OF_VALUES = {
    Kind.OUTPUT_DIFFERS, Kind.BAKED_VALUE, Kind.AMBIENT_READ, Kind.HIDDEN_STATE, Kind.SERVED_FORM_DIFFERS
}  # fmt: skip
_OF_SIZES = {Kind.BAKED_SIZE, Kind.OUTPUT_DIFFERS_ELSEWHERE, Kind.OUTPUTS_VARY}
# The kinds that say that answers differ, and nothing of the cause unless they name a line.
_SAYS_THAT_IT_DIFFERS = {Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE}
# The kinds that say why answers differ.
_CAUSES = {
    Kind.BAKED_VALUE, Kind.BAKED_SIZE, Kind.AMBIENT_READ, Kind.HIDDEN_STATE, Kind.SERVED_FORM_DIFFERS,
    Kind.OUTPUTS_VARY,
}  # fmt: skip
_NOTE = "numpy has no bfloat16: tensors of this datatype are stored here as float32"


@dataclass(frozen=True)
class FoundCounterexample:
    """A run that differs, the example of its method, and the findings that it shows."""

    example: BoundCall
    run: DifferentialRun
    diverging: DivergingAnswers
    difference: Difference
    findings: list[Finding] = field(default_factory=list)

    def to_manifest(self, arrays: BlobRef, test: BlobRef) -> Counterexample:
        """Return the counterexample as an artifact lists it, with its two files."""
        return Counterexample(
            method=self.run.method,
            case=self.run.case,
            inputs=self.run.inputs,
            output=self.difference.leaf,
            difference=self.difference.what,
            eager=self.difference.eager,
            artifact=self.difference.artifact,
            arrays=arrays,
            test=test,
        )


def choose_counterexamples(
    runs: Iterable[DifferentialRun], examples: Mapping[str, BoundCall], findings: Sequence[Finding]
) -> list[FoundCounterexample]:
    """Return at most `COUNTEREXAMPLES_MAX`, the smallest first; each shows another finding or has another cause.

    Those that were shrunk for one finding are chosen before others. The size is that of the inputs in bytes. `examples`
    has the example of each method. Runs whose arguments nest otherwise than their method's example are left out.
    """
    chosen: list[FoundCounterexample] = []
    covered: list[Finding] = []
    causes: set[tuple[str, bool]] = set()
    diverging_runs = _diverging_runs(runs, examples)
    own_cases = {(run.method, run.case) for run, _ in diverging_runs}
    for run, diverging in sorted(
        diverging_runs, key=lambda one: (not is_counterexample(one[0].case), _input_bytes(one[1]))
    ):
        example = examples[run.method]
        of_value = any(one.kind == Kind.BAKED_VALUE and _is_shrunk_for(run.case, one, findings) for one in findings)
        cause = run.method, not of_value and _has_other_sizes(run, example)
        explained = [one for one in findings if _shows(run, example, one, findings, own_cases)]
        if cause in causes and all(one in covered for one in explained):
            continue
        assert run.comparisons is not None  # as it differs
        assert run.comparisons.served.difference is not None
        causes.add(cause)
        covered += explained
        chosen.append(FoundCounterexample(example, run, diverging, run.comparisons.served.difference, explained))
    return sorted(chosen[:COUNTEREXAMPLES_MAX], key=lambda one: _input_bytes(one.diverging))


def link_findings(findings: Iterable[Finding], found: Sequence[FoundCounterexample]) -> list[Finding]:
    """Return the findings, each with the index in `found` of the counterexample that shows it, or None if none does."""
    return [finding.model_copy(update={"counterexample": _index(finding, found)}) for finding in findings]


def encode_arrays(inputs: Iterable[Tensor], eager: Answer | None, artifact: Answer | str) -> bytes:
    """Return inputs and answers as the bytes of an `.npz` without pickled objects.

    Its arrays are `input.<name>`, `eager.<name>` and `artifact.<name>`, each with its tensor's shape. Who raised has
    none.
    """
    named = {f"input.{one.name}": one for one in inputs}
    for model, answer in (("eager", eager), ("artifact", artifact)):
        if isinstance(answer, Answer):
            named |= {f"{model}.{name}": leaf for name, leaf in answer.leaves.items()}
    arrays: dict[str, NDArray[Any]] = {name: to_numpy(tensor) for name, tensor in named.items()}
    if any(tensor.datatype is Datatype.BF16 for tensor in named.values()):
        arrays["note"] = np.array(_NOTE)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return the tensor as an array of its shape; bfloat16 becomes float32."""
    return array(tensor.datatype, tensor.data).reshape(tensor.shape)


def _diverging_runs(
    runs: Iterable[DifferentialRun], examples: Mapping[str, BoundCall]
) -> list[tuple[DifferentialRun, DivergingAnswers]]:
    return [(run, run.diverging) for run in runs if run.diverging is not None and run.nests_as(examples[run.method])]


def _input_bytes(diverging: DivergingAnswers) -> int:
    return sum(len(tensor.data) for tensor in diverging.inputs)


def _has_other_sizes(run: DifferentialRun, example: BoundCall) -> bool:
    return run.inputs != example.specs


def _shows(
    run: DifferentialRun,
    example: BoundCall,
    finding: Finding,
    findings: Sequence[Finding],
    own_cases: Collection[tuple[str, str]],
) -> bool:
    """Whether the run shows the finding, so that it no longer differs once the finding is mended.

    A counterexample that was shrunk for a cause shows what has this cause. Any other run shows a cause only if it is
    the only one that is known.
    """
    if finding.evidence.get("method", run.method) != run.method or finding.effect == "harmless":
        return False
    if finding.evidence.get("case") == run.case or _is_shrunk_for(run.case, finding, findings):
        return True
    if finding.kind in _SAYS_THAT_IT_DIFFERS and finding.line is None:
        return _is_of_sizes(finding) == _has_other_sizes(run, example)
    if is_counterexample(run.case) and any(_is_shrunk_for(run.case, one, findings) for one in findings):
        return False
    if any(method == run.method and _is_shrunk_for(case, finding, findings) for method, case in own_cases):
        return False
    has_other_sizes = _has_other_sizes(run, example)
    if finding.kind == Kind.TRACER_WARNING:
        if finding.effect != "harmful" or has_other_sizes:
            return False
    elif finding.kind not in (_OF_SIZES if has_other_sizes else _OF_VALUES):
        return False
    return len(_causes(findings, run.method)) == 1


def _is_shrunk_for(case: str, finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether the case is the counterexample of the finding's line or sizes, or of those of a finding on its line."""
    if finding.kind not in (_OF_VALUES | _OF_SIZES | {Kind.TRACER_WARNING}) or finding.effect == "harmless":
        return False
    if finding.file and finding.line and shows_value_read(case, finding.file, finding.line):
        return True
    of_line = [one for one in findings if finding.line is not None and _place(one) == _place(finding)]
    return any(one.kind == Kind.BAKED_SIZE and shows_sizes(case, _symbols(one)) for one in [finding, *of_line])


def _causes(findings: Iterable[Finding], method: str) -> set[tuple[str | None, int | None, str]]:
    """Return the known causes of a method's differences: lines and, of findings without one, kinds."""
    wrong = [one for one in findings if one.kind in _CAUSES and one.evidence.get("method", method) == method]
    return {(one.file, one.line, "" if one.line else one.kind) for one in wrong}


def _is_of_sizes(finding: Finding) -> bool:
    return finding.kind in _OF_SIZES


def _place(finding: Finding) -> tuple[str | None, int | None]:
    return finding.file, finding.line


def _symbols(finding: Finding) -> list[str]:
    symbols = finding.evidence.get("symbols")
    return [str(one) for one in symbols] if isinstance(symbols, list) else []


def _index(finding: Finding, found: Sequence[FoundCounterexample]) -> int | None:
    """Return the counterexample of the finding's own case, or else the first that shows the finding."""
    shows = [index for index, one in enumerate(found) if _is_among(finding, one.findings)]
    exact = [index for index in shows if found[index].run.case == finding.evidence.get("case")]
    return next(iter([*exact, *shows]), None)


def _is_among(finding: Finding, others: Iterable[Finding]) -> bool:
    return any(finding is one for one in others)
