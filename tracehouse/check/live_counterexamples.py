"""The counterexamples of a live check: the smallest calls that differ, answered once more in this process."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracehouse.check.artifact_answer import ask_artifact
from tracehouse.check.ledger import OfferedCall
from tracehouse.check.oracle import EagerOracle
from tracehouse.check.report import LiveCounterexample
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.case_names import EXAMPLE
from tracehouse.differential.comparison import Answer
from tracehouse.differential.differential_run import DifferentialRun, DivergingAnswers
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call
from tracehouse.eager.submission import LoadedSubmission
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.findings.finding import Finding
from tracehouse.introspection import user_lines
from tracehouse.reproducer.counterexamples import FoundCounterexample, choose_counterexamples, to_numpy
from tracehouse.spec.trace_spec import CheckOptions
from tracehouse.torch_values import returned, structure
from tracehouse.torch_values.tensors import pack


def find_counterexamples(
    loaded: LoadedSubmission,
    artifact: torch.jit.ScriptModule,
    offered: Sequence[OfferedCall],
    findings: Sequence[Finding],
    options: CheckOptions,
    *,
    seed: int,
    within_s: float,
) -> list[FoundCounterexample]:
    """Return the smallest of the calls that differ, with both answers; `within_s` is for each call of the model."""
    eager = EagerOracle(loaded.model, seed, measures_rounding=options.measures_rounding)
    examples = {method: _make_bound_call(EXAMPLE, call) for method, call in loaded.calls.items()}
    differing = [one for one in offered if not one.agrees]
    runs = [_run(one, eager, artifact, options.tolerance, seed, within_s) for one in differing]
    return choose_counterexamples([one for one in runs if one is not None], examples, findings)


def as_arrays(found: FoundCounterexample) -> LiveCounterexample:
    """Return the counterexample as a report has it."""
    diverging = found.diverging
    return LiveCounterexample(
        method=found.run.method,
        case=found.run.case,
        difference=f"{found.difference.leaf}: {found.difference.what}",
        inputs={one.name: to_numpy(one).copy() for one in diverging.inputs},
        eager={name: to_numpy(leaf).copy() for name, leaf in diverging.eager.leaves.items()},
        artifact=diverging.artifact
        if isinstance(diverging.artifact, str)
        else {name: to_numpy(leaf).copy() for name, leaf in diverging.artifact.leaves.items()},
    )


def _run(
    offered: OfferedCall,
    eager: EagerOracle,
    artifact: torch.jit.ScriptModule,
    tolerance: float,
    seed: int,
    within_s: float,
) -> DifferentialRun | None:
    """Return both answers to a call. None if one of them cannot be had now, or both agree."""
    call = offered.call
    try:
        expected = eager.answer(call, within_s=within_s)
        asked = ask_artifact(eager, artifact, call, expected, tolerance=tolerance, seed=seed)
    except (ModelRaised, LimitExceeded, TooSlow):
        return None
    difference = asked.compared.difference
    if difference is None:
        return None
    actual: Answer | str
    if asked.answer is None:
        actual = user_lines.error_text(asked.error).strip() if asked.error else ""
    else:
        actual = _describe_answer(asked.answer.outputs, asked.answer.inputs, difference.leaf)
    bound = _make_bound_call(offered.name, call)
    diverging = DivergingAnswers(
        bound.inputs, _describe_answer(expected.outputs, expected.inputs, difference.leaf), actual
    )
    return DifferentialRun(
        bound, offered.name, bound.specs, {}, FormComparisons(asked.compared), [], diverging=diverging
    )


def _make_bound_call(case: str, call: Call) -> BoundCall:
    return BoundCall(case, call.method, observed_contract.describe_arguments(call), pack(call.tensors))


def _describe_answer(outputs: Any, inputs: Mapping[str, torch.Tensor], differing: str) -> Answer:
    """Return the outputs, and the input that the call left in another state, if it is what differs."""
    named = returned.tensors(outputs)
    named |= {path: tensor for path, tensor in structure.tensors(dict(inputs), "input").items() if path == differing}
    return Answer(structure.describe(outputs, "output"), {tensor.name: tensor for tensor in pack(named)})
