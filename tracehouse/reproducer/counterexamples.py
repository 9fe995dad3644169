"""Counterexamples: the smallest calls on which an artifact differs from its model, one for each cause.

Each is stored as arrays that numpy reads, and as a pytest file that shows the difference with torch alone.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.artifact.blob import BlobRef
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import shows_value_read
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

    The size is that of the inputs in bytes. `examples` has the example of each method. Runs whose arguments nest
    otherwise than their method's example are left out.
    """
    chosen: list[FoundCounterexample] = []
    covered: list[Finding] = []
    causes: set[tuple[str, bool]] = set()
    for run, diverging in sorted(_diverging_runs(runs, examples), key=lambda one: _input_bytes(one[1])):
        example = examples[run.method]
        cause = run.method, _has_other_sizes(run, example)
        explained = [one for one in findings if _shows(run, example, one)]
        if cause in causes and all(one in covered for one in explained):
            continue
        assert run.comparisons is not None  # as it differs
        assert run.comparisons.served.difference is not None
        causes.add(cause)
        covered += explained
        chosen.append(FoundCounterexample(example, run, diverging, run.comparisons.served.difference, explained))
    return chosen[:COUNTEREXAMPLES_MAX]


def link_findings(findings: Iterable[Finding], found: Sequence[FoundCounterexample]) -> list[Finding]:
    """Return the findings, each with the index in `found` of the counterexample that shows it, or None if none does."""
    return [finding.model_copy(update={"counterexample": _index(finding, found)}) for finding in findings]


def encode_arrays(found: FoundCounterexample) -> bytes:
    """Return inputs and answers as the bytes of an `.npz` without pickled objects.

    Its arrays are `input.<name>`, `eager.<name>` and `artifact.<name>`, each with its tensor's shape.
    """
    named = {f"input.{one.name}": one for one in found.diverging.inputs}
    for model, answer in (("eager", found.diverging.eager), ("artifact", found.diverging.artifact)):
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


def _shows(run: DifferentialRun, example: BoundCall, finding: Finding) -> bool:
    if finding.evidence.get("method", run.method) != run.method:
        return False
    if finding.evidence.get("case") == run.case:
        return True
    if finding.file and finding.line and shows_value_read(run.case, finding.file, finding.line):
        return True
    has_other_sizes = _has_other_sizes(run, example)
    if finding.kind == Kind.TRACER_WARNING:
        return finding.effect == "harmful" and not has_other_sizes
    return finding.kind in (_OF_SIZES if has_other_sizes else _OF_VALUES)


def _index(finding: Finding, found: Sequence[FoundCounterexample]) -> int | None:
    """Return the counterexample of the finding's own case, or else the first that shows the finding."""
    shows = [index for index, one in enumerate(found) if _is_among(finding, one.findings)]
    exact = [index for index in shows if found[index].run.case == finding.evidence.get("case")]
    return next(iter([*exact, *shows]), None)


def _is_among(finding: Finding, others: Iterable[Finding]) -> bool:
    return any(finding is one for one in others)
