"""Counterexamples: of the calls that came out otherwise here, the smallest of each cause.

Each is kept as arrays that numpy reads, and as a pytest file that shows it with torch alone.
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
from tracehouse.differential.comparison import Answer, Difference
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers
from tracehouse.differential.offered_cases import shows_value_read
from tracehouse.findings.kinds import Kind
from tracehouse.findings.trace_check import Finding
from tracehouse.tensors.tensor import Datatype, Tensor, array

COUNTEREXAMPLES_MAX = 4

# What a difference at the example's own sizes shows, and what one at others does.
_OF_VALUES = {
    Kind.OUTPUT_DIFFERS, Kind.BAKED_VALUE, Kind.AMBIENT_READ, Kind.HIDDEN_STATE, Kind.SERVED_FORM_DIFFERS
}  # fmt: skip
_OF_SIZES = {Kind.BAKED_SIZE, Kind.OUTPUT_DIFFERS_ELSEWHERE, Kind.OUTPUTS_VARY}
_NOTE = "numpy has no bfloat16: what is of it stands here as float32"


@dataclass(frozen=True)
class FoundCounterexample:
    """A counterexample of the method whose example is `example`, and the findings that it shows, by their places."""

    example: BoundCall
    trial: DifferentialRun
    shown: DivergingAnswers
    difference: Difference
    findings: list[Finding] = field(default_factory=list)

    def kept(self, arrays: BlobRef, test: BlobRef) -> Counterexample:
        """As an artifact lists it."""
        return Counterexample(
            method=self.trial.method,
            case=self.trial.case,
            inputs=self.trial.inputs,
            output=self.difference.leaf,
            difference=self.difference.what,
            eager=self.difference.eager,
            artifact=self.difference.artifact,
            arrays=arrays,
            test=test,
        )


def choose_counterexamples(
    trials: Iterable[DifferentialRun], examples: Mapping[str, BoundCall], findings: Sequence[Finding]
) -> list[FoundCounterexample]:
    """At most four, the smallest first, each of which shows another finding or is of another cause."""
    chosen: list[FoundCounterexample] = []
    covered: list[Finding] = []
    causes: set[tuple[str, bool]] = set()
    for trial, shown in sorted(_shown(trials, examples), key=lambda one: _size(one[1])):
        example = examples[trial.method]
        cause = trial.method, _is_of_sizes(trial, example)
        explained = [one for one in findings if _shows(trial, example, one)]
        if cause in causes and all(one in covered for one in explained):
            continue
        assert trial.compared is not None  # as it differs
        assert trial.compared.served.difference is not None
        causes.add(cause)
        covered += explained
        chosen.append(FoundCounterexample(example, trial, shown, trial.compared.served.difference, explained))
    return chosen[:COUNTEREXAMPLES_MAX]


def link_findings(findings: Iterable[Finding], found: Sequence[FoundCounterexample]) -> list[Finding]:
    """Each with the number of the counterexample that shows it, as it stands in the list; what it said of one before
    was not ours to say."""
    return [finding.model_copy(update={"counterexample": _number(finding, found)}) for finding in findings]


def encode_arrays(found: FoundCounterexample) -> bytes:
    """As an `.npz`, which holds nothing that would have to be unpickled."""
    named = {f"input.{one.name}": one for one in found.shown.inputs}
    for side, answer in (("eager", found.shown.eager), ("artifact", found.shown.artifact)):
        if isinstance(answer, Answer):
            named |= {f"{side}.{name}": leaf for name, leaf in answer.leaves.items()}
    kept: dict[str, NDArray[Any]] = {name: to_numpy(tensor) for name, tensor in named.items()}
    if any(tensor.datatype is Datatype.BF16 for tensor in named.values()):
        kept["note"] = np.array(_NOTE)
    file = io.BytesIO()
    np.savez(file, **kept)  # type: ignore[arg-type]
    return file.getvalue()


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """bfloat16 as float32."""
    return array(tensor.datatype, tensor.data).reshape(tensor.shape)


def _shown(
    trials: Iterable[DifferentialRun], examples: Mapping[str, BoundCall]
) -> list[tuple[DifferentialRun, DivergingAnswers]]:
    return [(one, one.shown) for one in trials if one.shown is not None and one.is_as_in(examples[one.method])]


def _size(shown: DivergingAnswers) -> int:
    return sum(len(tensor.data) for tensor in shown.inputs)


def _is_of_sizes(trial: DifferentialRun, example: BoundCall) -> bool:
    return trial.inputs != example.specs


def _shows(trial: DifferentialRun, example: BoundCall, finding: Finding) -> bool:
    if finding.evidence.get("method", trial.method) != trial.method:
        return False
    if finding.evidence.get("case") == trial.case:
        return True
    if finding.file and finding.line and shows_value_read(trial.case, finding.file, finding.line):
        return True
    is_of_sizes = _is_of_sizes(trial, example)
    if finding.kind == Kind.TRACER_WARNING:
        return finding.effect == "harmful" and not is_of_sizes
    return finding.kind in (_OF_SIZES if is_of_sizes else _OF_VALUES)


def _number(finding: Finding, found: Sequence[FoundCounterexample]) -> int | None:
    places = [place for place, one in enumerate(found) if _is_among(finding, one.findings)]
    exact = [place for place in places if found[place].trial.case == finding.evidence.get("case")]
    return next(iter([*exact, *places]), None)


def _is_among(finding: Finding, others: Iterable[Finding]) -> bool:
    return any(finding is one for one in others)
