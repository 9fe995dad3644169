"""Conclusions: the findings and the claim that follow from the evidence. Nothing here calls a model."""

from collections.abc import Iterator, Mapping, Sequence

from tracehouse.check import findings
from tracehouse.check.claim import make_claim
from tracehouse.check.evidence import Evidence, SizeState
from tracehouse.check.flip import flip
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.instrumentation.ambient_reads import ASKS_ABOUT_TRACING
from tracehouse.check.instrumentation.value_reads import IN_TORCH
from tracehouse.check.prove.prover import Proof
from tracehouse.contract.contract import MethodClaim
from tracehouse.contract.dims import symbols_of
from tracehouse.contract.output_spec import Answers
from tracehouse.contract.regions import Region
from tracehouse.findings import coverage
from tracehouse.findings.finding import Finding
from tracehouse.introspection.user_lines import Line
from tracehouse.torchscript.torch_check import RecordedWarning


def findings_of(evidence: Evidence) -> list[Finding]:
    """Return the findings: wrong value reads, baked values and baked sizes first, then each layer's own, in order."""
    method = evidence.method
    return [
        *(findings.value_read(method, one, evidence.lines_beside(one.line)) for one in evidence.wrong_reads),
        *(findings.unsettled_value_read(method, line, why) for line, why in _find_unsettled_reads(evidence)),
        *(
            findings.value_in_graph(method, one, evidence.line_of_value(one), evidence.candidates)
            for one in evidence.wrong_values
        ),
        *(findings.size_kept(method, one) for one in evidence.wrong_sizes),
        *_of_observe(evidence),
        *_of_sizes(evidence),
        *_failure(evidence, "prove"),
        *_of_size_state(evidence, evidence.graphs.size_state),
        *_failure(evidence, "graphs"),
        *_of_left_state(evidence),
        *_failure(evidence, "flip"),
        *_of_calls(evidence),
        *_failure(evidence, "probe"),
        *_failure(evidence, "batch"),
    ]


def warnings_of(evidence: Evidence) -> list[Finding]:
    """Return a finding for each TracerWarning, with its effect as far as the layers know it."""
    return [_warning(evidence, warned) for warned in evidence.warned]


def claim_of(evidence: Evidence) -> MethodClaim | None:
    """Return the sizes for which the artifact is right; None if nothing can be claimed.

    Nothing is claimed for an artifact that is wrong at the example's own sizes, because right answers at other sizes
    were luck. Nothing is claimed either if the eager model's answers depend on the sizes of its first call.
    """
    groups, proof = evidence.groups, evidence.prove.proof
    if groups is None or evidence.is_wrong or evidence.keeps_a_size:
        return None
    proven = [*proof.regions, *proof.sampled, *_sampled_regions(evidence, proof)] if proof is not None else []
    values, batch = evidence.probe.values.ranges, evidence.batch.batch
    compared = [one for one in evidence.compared_sizes if not (one.agrees and _is_doubtful(one.sizes, evidence))]
    memory = proof.memory if proof is not None else None
    return make_claim(groups, compared, proven, values=values, batch=batch, memory=memory)


def answers_of(evidence: Evidence, claim: MethodClaim) -> Answers:
    """Return sizes that the claim accepts, each with the shapes and datatypes of the eager model's outputs there."""
    is_open = {symbol for shape in claim.shapes.values() for symbol in symbols_of(shape)}
    example = evidence.groups.example if evidence.groups is not None else {}
    closed = {symbol: size for symbol, size in example.items() if symbol not in is_open}
    return [
        (one.sizes, one.outputs) for one in evidence.size_calls if one.agrees and closed.items() <= one.sizes.items()
    ]


def _of_observe(evidence: Evidence) -> Iterator[Finding]:
    observation, method = evidence.observe.observation, evidence.method
    if observation is not None:
        yield from (findings.ambient_read(method, one) for one in observation.ambient if one.effect != "harmless")
        yield from (findings.unrecorded_write(method, one) for one in observation.unrecorded)
        yield from (findings.outside_write(method, one) for one in observation.outside)
        asks = next((one.line for one in observation.contexts if one.name in ASKS_ABOUT_TRACING), None)
        if observation.tracing_difference is not None and asks is not None:
            yield findings.tracing_flag(method, observation.tracing_difference, asks)
    yield from _failure(evidence, "observe")


def _of_sizes(evidence: Evidence) -> Iterator[Finding]:
    groups, method = evidence.groups, evidence.method
    if groups is not None:
        for symbol, error in groups.refusals.items():
            yield findings.dynamic_refused(method, symbol, groups.describe_dims(symbol), error)
    yield from _failure(evidence, "sizes")


def _of_calls(evidence: Evidence) -> Iterator[Finding]:
    yield from _of_size_state(evidence, evidence.calls.size_state)
    yield from (coverage.proof_void(evidence.method, region, one.sizes) for region, one in evidence.calls.contradicted)
    yield from _failure(evidence, "calls")


def _of_size_state(evidence: Evidence, state: SizeState | None) -> Iterator[Finding]:
    """Yield a finding if the eager model keeps state that depends on sizes.

    If the state stays as the first call left it, the model has one size. If a call of another size changes the answer
    to the example, the model has hidden state.
    """
    if state is None or not state.is_settled:
        return
    if state.changed is None:
        yield findings.keeps_a_size(evidence.call, state.after, state.line)
    else:
        yield findings.hidden_state(evidence.call, state.changed, state.line)


def _of_left_state(evidence: Evidence) -> Iterator[Finding]:
    if (left := evidence.flip.left) is not None:
        yield findings.hidden_state(evidence.call, left.difference, left.line)


def _failure(evidence: Evidence, layer: str) -> Iterator[Finding]:
    yield from (finding for name, finding in evidence.failures.items() if name == layer)


def _find_unsettled_reads(evidence: Evidence) -> list[tuple[Line, str]]:
    """Return the lines that read a value if it is unknown whether the read makes the trace wrong, with the reason."""
    judged = evidence.judged
    reasons = {one.line: one.reason for one in judged if one.effect == "unknown" and _is_of_values(evidence, one)}
    for warned, warning in zip(evidence.warned, warnings_of(evidence), strict=True):
        if warned.reads_value and warning.effect == "unknown" and warned.line is not None:
            reasons.setdefault(warned.line, warning.reason or "")
    explained = [*(one.line for one in evidence.wrong_reads), *(one.line for one in evidence.wrong_values)]
    return [(line, why) for line, why in reasons.items() if line not in explained]


def _is_of_values(evidence: Evidence, judged: ReadEffect) -> bool:
    """Whether the read certainly takes a value out of a tensor during a trace.

    For a read by an operator of torch, or as an index, that is not certain: the tracer likely records the operator.
    """
    observation, read = evidence.observe.observation, judged.read
    is_read = observation is not None and observation.in_torch and read.site in observation.recorded
    return is_read and read.depends_on == "values" and read.site.kind not in (IN_TORCH, "__index__")


def _warning(evidence: Evidence, warned: RecordedWarning) -> Finding:
    divergences = [one.divergence for one in [*evidence.wrong_values, *evidence.flip.explained]]
    effect, reason, judged = flip.judge_warning(warned, evidence.judged, divergences)
    if effect == "harmless" and warned.line in {one.line for one in evidence.wrong_sizes}:
        effect, reason = "harmful", "the trace bakes in the size that the line reads"
    confirmed = judged.confirmed if judged is not None else None
    return findings.tracer_warning(warned, confirmed=confirmed, effect=effect, reason=reason)


def _is_doubtful(sizes: Mapping[str, int], evidence: Evidence) -> bool:
    """Whether a call at these sizes shows nothing of other values: values decide there, or others did not agree."""
    proof = evidence.prove.proof
    if evidence.is_settled_at_example_alone or sizes in evidence.calls.decided_by_values:
        return True
    if proof is not None and sizes in proof.decided_by_values:
        return True
    return any(one.sizes == sizes and one.outcome == "unsure" for one in evidence.calls.calls)


def _sampled_regions(evidence: Evidence, proof: Proof) -> Sequence[Region]:
    """Return the regions that were proven on symbols alone, if every value read outside the trace is harmless.

    Real tensors may take another path through the model there. Such reads decide the path, and inputs that take the
    other path were compared too and agreed.
    """
    observation = evidence.observe.observation
    assert observation is not None  # what is proven was observed
    judged = evidence.judged
    aside = [one for one in judged if one.read.site not in observation.recorded and one.read.depends_on == "values"]
    return proof.proven_on_symbols if aside and all(one.effect == "harmless" for one in aside) else []
