"""The pipeline: it runs the layers of the check of one method in order, and each layer adds to the evidence.

A layer yields its result each time it knows more. It runs submitted code, which may raise anything. If that happens,
the layer's last result stays, a finding says that the layer broke off, and the other layers run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from tracehouse.check import findings
from tracehouse.check.batch import certificate
from tracehouse.check.blame import make_tester
from tracehouse.check.claim import find_contradicted
from tracehouse.check.evidence import (
    BatchEvidence,
    CallsEvidence,
    Counterexample,
    Evidence,
    FlipEvidence,
    GraphsEvidence,
    LayerEvidence,
    LayerName,
    ObserveEvidence,
    ProbeEvidence,
    ProveEvidence,
    SizesEvidence,
    SizeState,
)
from tracehouse.check.flip import flip
from tracehouse.check.flip.explained_values import find_explained
from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.flip.left_state import LeftState, find_left_state
from tracehouse.check.graphs.baked_sizes import find_baked_sizes
from tracehouse.check.graphs.baked_values import BakedValue, find_baked_values
from tracehouse.check.graphs.find_size_groups import find_size_groups
from tracehouse.check.graphs.many_sizes import find_effect_of_many_sizes
from tracehouse.check.graphs.size_tests import (
    SizeTest,
    run_calls,
    run_first_size_tests,
    run_size_tests,
    run_size_tests_at,
    run_witnesses_at,
)
from tracehouse.check.inputs.probes import ValueBounds
from tracehouse.check.memory_calls import measure_memory
from tracehouse.check.observe import Observation, observe
from tracehouse.check.probe.causes import Cause, CauseTester
from tracehouse.check.probe.shrink import shrink
from tracehouse.check.probe.value_ranges import find_value_ranges
from tracehouse.check.prove.beyond import BEYOND_MAX
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.prove.wanted_sizes import default_sizes, limit_sizes
from tracehouse.check.size_groups import Groups
from tracehouse.check.size_reads import find_sizes_decided_by_values
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.check.witness_sizes import border_sizes, doubtful_sizes, is_proven
from tracehouse.contract.contract import Batch
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.memory import Memory
from tracehouse.differential.budget import Budget
from tracehouse.differential.case_names import name_counterexample, name_sizes, name_value_read
from tracehouse.differential.size_samples import (
    STAND_IN_PROBES,
    STAND_IN_ROWS,
    most_input_bytes,
    stand_in_sizes,
)
from tracehouse.eager.call import Call
from tracehouse.eager.error_translation import reports_no_memory
from tracehouse.findings.trace_check import Layer
from tracehouse.spec.trace_spec import WantedSizes
from tracehouse.torchscript.torch_check import RecordedWarning

ReportLayer = Callable[[Layer], object]
Probe = Callable[[ValueBounds, Budget, Sequence[Call], Call, bool], object]

# The fraction of the remaining budget that a layer may take when it begins. Without it, an early layer could leave
# nothing for the later ones. The fractions are choices.
_SHARES: Mapping[LayerName, float] = {
    "observe": 0.5, "sizes": 0.25, "prove": 0.65, "graphs": 0.35, "flip": 0.5, "calls": 0.5, "probe": 0.5, "batch": 0.8,
}  # fmt: skip
# Finding the call that shows one cause alone may take this fraction of the remaining budget, and shrinking it as much.
_SHRINK_SHARE = 0.04
# The calls at sizes that the proof leaves open may take this fraction of the rest of their layer. A choice.
_REST_SHARE = 0.5
# Then it may take this fraction of what is left to ask whether values decide at sizes that calls alone show. A choice.
_READS_SHARE = 0.5
# Calls of many sizes, one after another, may take this fraction of the rest of their layer. A choice.
_MANY_SIZES_SHARE = 0.25
# What calls leave that read other values may take this fraction of the rest of its layer. A choice.
_LEFT_SHARE = 0.25
_BATCH_MAX = 32  # rows: a certificate for more is not tried
_BROKE_OFF = "the layer broke off"
_NO_MEMORY = "the rest of the layer, because this process has no more memory"
_NO_FLOAT64 = "answers in float64, so that the fixed tolerance decided whether a difference is rounding"
_NO_ROOM_FOR_ROWS = "nothing: there is no memory for several rows together"
_NO_SIZES = "nothing: no size may vary"
_HAS_MEMORY = "nothing: the model hands the memory of tensors out, and symbols have none"
_NOTHING_TO_CLAIM = "nothing: the artifact is wrong at the example's own sizes"
_MODEL_TAKES_ONE_SIZE = "nothing: the model keeps what it computed for the example's sizes"


@dataclass(frozen=True)
class RequestedSizes:
    """What the request says about sizes: which dims vary, and for which sizes the artifact is wanted.

    `dynamic` has an expression in symbols by input and dim, and `sizes` the wanted sizes by symbol.
    """

    dynamic: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sizes: Mapping[str, WantedSizes] = field(default_factory=dict)


class Pipeline:
    """Gathers the evidence of one method within a budget.

    `report` is called with each layer when it ends. `probe` compares on other values in the example's shapes; it gets
    the smallest and the largest integer that the model accepts in each input, a budget, calls to begin with, a call
    whose layouts are varied, and whether the proof says already that other values change nothing. The sizes of the
    `samples` are tried on their values.
    """

    def __init__(
        self,
        target: Target,
        requested: RequestedSizes,
        budget: Budget,
        probe: Probe,
        report: ReportLayer,
        samples: Sequence[Call] = (),
    ) -> None:
        self._target = target
        self._requested = requested
        self._budget = budget
        self._run_probes = probe
        self._report = report
        self._samples = samples
        self._spent: dict[LayerName, tuple[float, float]] = {}  # seconds by the clock, and of the budget

    def run(self, warned: Sequence[RecordedWarning]) -> Evidence:
        """Return the evidence of all layers, given the tracer's warnings. Nothing that the model raises comes out."""
        evidence = Evidence(self._target.call, warned)
        evidence = self._run_layer(evidence, "observe", self._observe)
        evidence = self._run_layer(evidence, "sizes", self._sizes)
        evidence = self._run_layer(evidence, "prove", self._prove)
        evidence = self._run_layer(evidence, "graphs", self._graphs)
        evidence = self._run_layer(evidence, "flip", self._flip)
        if _knows_more_to_prove(evidence):
            evidence = self._run_layer(evidence, "prove", self._prove)
        evidence = self._run_layer(evidence, "calls", self._calls)
        evidence = self._run_layer(evidence, "probe", self._probe)
        return self._run_layer(evidence, "batch", self._batch)

    def _run_layer(
        self, evidence: Evidence, name: LayerName, layer: Callable[[Evidence, Budget], Iterator[LayerEvidence]]
    ) -> Evidence:
        """Return the evidence with what one layer adds to it. Of a layer that runs again, the last report counts."""
        budget = self._budget.share(_SHARES[name])
        started, left_s = time.monotonic(), self._budget.left_s
        summary = ""
        try:
            for result in layer(evidence, budget):
                evidence = replace(evidence, **{name: result})  # type: ignore[arg-type]
                summary = result.summary
        except (Exception, TooSlow) as error:  # noqa: BLE001 - submitted code: anything may come out of it
            summary = _BROKE_OFF
            if reports_no_memory(error):
                budget.leave_out(_NO_MEMORY)
            failure = findings.layer_failed(name, evidence.method, error)
            evidence = replace(evidence, failures={**evidence.failures, name: failure})
        if (lacking := self._target.eager.take_lack_of_memory()) is not None:
            budget.leave_out(f"{_NO_FLOAT64}: {lacking}")
        before_s, budget_before_s = self._spent.get(name, (0.0, 0.0))
        seconds = before_s + time.monotonic() - started
        budget_s = budget_before_s + left_s - self._budget.left_s
        self._spent[name] = seconds, budget_s
        is_cut, left_out = budget.is_cut, budget.left_out()
        self._report(
            Layer(
                name=name,
                method=evidence.method,
                seconds=round(seconds, 4),
                summary=summary,
                left_out=left_out,
                is_cut=is_cut,
                budget_s=round(budget_s, 4),
            )
        )
        return evidence

    def _observe(self, _: Evidence, budget: Budget) -> Iterator[ObserveEvidence]:
        for part in self._target.eager.memory.left_out:  # said beforehand: this layer is the first that is reported
            budget.leave_out(part)
        seen = observe(self._target, budget)
        summary = f"{_count(len(seen.reads), 'read')} of values, {len(seen.ambient)} of what lies outside the model"
        yield ObserveEvidence(seen, summary)

    def _sizes(self, _: Evidence, budget: Budget) -> Iterator[SizesEvidence]:
        target, requested = self._target, self._requested
        if target.form == "uploaded" and not requested.dynamic:
            why = "nothing: an uploaded archive has no model that knows what it should answer at other sizes"
            yield SizesEvidence(summary=why)
            return
        groups = find_size_groups(target, requested.dynamic, budget)
        yield SizesEvidence(groups, f"sizes that may vary: {', '.join(groups.symbols) or 'none'}")

    def _prove(self, evidence: Evidence, budget: Budget) -> Iterator[ProveEvidence]:
        """Prove as soon as the sizes are known. What a layer finds out afterwards may let a second run prove more."""
        settles_reads = self._settles_reads(evidence, budget)
        if why := _why_nothing_to_prove(replace(evidence, prove=ProveEvidence(settles_reads=settles_reads))):
            yield ProveEvidence(settles_reads=settles_reads, summary=why)
            return
        assert evidence.groups is not None  # or there is nothing to prove
        proof = _choose_wider(evidence.prove.proof, self._find_proof(evidence, budget))
        settles_reads |= _settles_all_reads(replace(evidence, prove=ProveEvidence(proof)))
        yield (result := ProveEvidence(proof, settles_reads=settles_reads))
        proof = _with_measured_memory(proof, measure_memory(self._target, evidence.groups, proof, budget))
        _note_gaps(proof, budget)
        settled = "; no value that is read decides anything" if settles_reads and evidence.observed_reads else ""
        yield replace(result, proof=proof, summary=f"{_summary_of_proof(proof)}{settled}")

    def _graphs(self, evidence: Evidence, budget: Budget) -> Iterator[GraphsEvidence]:
        target, groups, proof = self._target, evidence.groups, evidence.prove.proof
        calls: list[SizeTest] = []
        if groups is not None:
            calls += run_calls(target, groups, _sizes_of(self._samples, groups), budget.share(0.5))
            calls += run_first_size_tests(target, groups, self._requested.sizes, budget.share(0.5), _settled_by(proof))
        yield (result := GraphsEvidence(calls))
        baked_values = find_baked_values(
            target, budget, evidence.observe.observation, tries_values=not evidence.prove.settles_reads
        )
        yield (result := replace(result, baked_values=baked_values))
        if groups is not None:
            yield (result := replace(result, baked_sizes=find_baked_sizes(target, groups, calls, budget)))
        for state in self._size_states(calls):
            yield (result := replace(result, size_state=state))
        yield replace(result, summary=f"{_count(len(calls), 'call')} of other sizes")

    def _flip(self, evidence: Evidence, budget: Budget) -> Iterator[FlipEvidence]:
        observation = evidence.observe.observation
        if observation is None or evidence.prove.settles_reads:
            why = "no read was observed" if observation is None else "the proof settles what the model reads"
            yield FlipEvidence(left=self._find_left_state(observation, budget), summary=f"nothing: {why}")
            return
        judged = flip.judge_reads(self._target, observation, budget)
        yield (result := FlipEvidence(judged))
        values = evidence.graphs.baked_values
        yield (result := replace(result, explained=find_explained(self._target, judged, values, observation)))
        if all(one.effect == "harmless" for one in judged):  # else the artifact is rejected, or the read is unsettled
            yield (result := replace(result, left=self._find_left_state(observation, budget)))
        evidence = replace(evidence, flip=result)
        tester = make_tester(self._target, evidence)
        shown = {one.line: one for one in judged if one.counterexample is not None and one.effect == "harmful"}
        for line, one in shown.items():
            assert one.counterexample is not None  # as it was chosen
            smallest = self._smallest(
                tester, name_value_read(line.file, line.line), one.counterexample, tester.at_line(line)
            )
            yield (result := replace(result, counterexamples=[*result.counterexamples, smallest]))
        yield replace(result, summary=_summary_of_reads(judged))

    def _find_left_state(self, observation: Observation | None, budget: Budget) -> LeftState | None:
        if observation is None or self._target.retrace is None:
            return None
        return find_left_state(self._target, observation, budget.share(_LEFT_SHARE))

    def _calls(self, evidence: Evidence, budget: Budget) -> Iterator[CallsEvidence]:
        groups, proof = evidence.groups, evidence.prove.proof
        if groups is None or not groups.symbols:
            yield CallsEvidence(summary=_NO_SIZES)
            return
        calls = self._call_other_sizes(evidence, groups, proof, budget)
        result = CallsEvidence(calls)
        if any(one.is_wrong for one in calls):
            every = [*evidence.graphs.calls, *calls]
            result = replace(result, baked_sizes=find_baked_sizes(self._target, groups, every, budget))
        yield result
        if not evidence.keeps_a_size:
            for state in self._size_states(calls):
                yield (result := replace(result, size_state=state))
            if result.size_state is None and (found := self._state_of_many_sizes(groups, budget)) is not None:
                yield (result := replace(result, size_state=found))
        is_settled = _settled_by(proof)
        agreeing = [one for one in (*evidence.graphs.calls, *calls) if one.agrees and not is_settled(one.sizes)]
        observation = evidence.observe.observation
        known = observation.recorded if observation is not None else frozenset()
        decided = find_sizes_decided_by_values(self._target, agreeing, known, budget.share(_READS_SHARE))
        yield (result := replace(result, decided_by_values=decided))
        if proof is not None:
            compared = replace(evidence, calls=result).compared_sizes
            yield (result := replace(result, contradicted=find_contradicted(proof.regions, compared)))
        yield replace(result, summary=f"{_count(len(calls), 'call')} of other sizes")

    def _find_proof(self, evidence: Evidence, budget: Budget) -> Proof:
        """Return the proof for the wanted sizes."""
        groups, observation = evidence.groups, evidence.observe.observation
        assert groups is not None  # or there is nothing to prove
        assert observation is not None
        wanted = self._choose_wanted_sizes(evidence, groups)
        self._note_unproven_sizes(wanted, budget)
        lines, numbers = evidence.flip.harmless_lines, evidence.flip.harmless_numbers | observation.numbers
        return prove(self._target, groups, wanted, budget, lines, numbers, self._choose_reach(wanted))

    def _call_other_sizes(
        self, evidence: Evidence, groups: Groups, proof: Proof | None, budget: Budget
    ) -> list[SizeTest]:
        """Compare at sizes that are not proven, at the ends of what is, and where a proof says too little."""
        target, known, wanted = self._target, evidence.graphs.calls, self._requested.sizes
        if proof is None:
            return run_size_tests(target, groups, wanted, budget, known=known)
        borders = border_sizes(
            proof, groups, known, is_baked=bool(evidence.baked_sizes), parameters=_count_parameters(target.eager.module)
        )
        calls = run_size_tests_at(target, groups, borders, budget)
        calls += run_size_tests(
            target,
            groups,
            wanted,
            budget.share(_REST_SHARE),
            known=[*known, *calls],
            is_settled=_settled_by(proof),
        )
        calls += run_calls(target, groups, _counterexamples_of(proof), budget)
        return calls + run_witnesses_at(target, groups, doubtful_sizes(proof, groups, [*known, *calls]), budget)

    def _settles_reads(self, evidence: Evidence, budget: Budget) -> bool:
        """Whether a proof at the example's sizes shows that no value read decides, where flips alone spoke against one.

        A size that values decide is a symbol there. Python may compare it with 0, say, and get one answer for all.
        """
        groups, observation = evidence.groups, evidence.observe.observation
        doubted = [one for one in evidence.flip.judged if one.effect != "harmless" and one.read.depends_on != "sizes"]
        if groups is None or not groups.symbols or evidence.wrong_values:
            return False
        if observation is None or observation.hands_memory_out:
            return False
        if not evidence.wrong_reads or any(one.confirmed for one in doubted):
            return False
        harmless = {one.read.line for one in evidence.flip.judged} - {one.read.line for one in doubted}
        proof = prove(self._target, groups, {}, budget.share(0.5), harmless, observation.numbers)
        return bool(proof.regions)

    def _probe(self, evidence: Evidence, budget: Budget) -> Iterator[ProbeEvidence]:
        # Their bounds must hold at sizes near the example's as well, so smaller ones are searched.
        values = find_value_ranges(self._with_small_example(evidence, STAND_IN_ROWS), evidence.groups, budget)
        yield (result := ProbeEvidence(values))
        tester = make_tester(self._target, evidence)
        for name, call in values.differing:
            smallest = self._smallest(tester, name, call)
            yield (result := replace(result, counterexamples=[*result.counterexamples, smallest]))
        # Probes have a limit of their own, and may take what is left of the whole budget.
        has_floats = any(tensor.is_floating_point() for tensor in self._target.call.tensors.values())
        small = self._with_small_example(evidence, STAND_IN_PROBES if has_floats else STAND_IN_ROWS).call
        self._run_probes(values.bounds, self._budget, evidence.wrong_calls, small, _is_proven_for_all_values(evidence))
        wrong = [(_name_value(one), one.call, tester.at_line(one.line)) for one in evidence.wrong_values
                 if one.confirmed]  # fmt: skip
        wrong += [(name_sizes(one.symbols), one.counterexample.call, Cause(symbols=frozenset(one.symbols)))
                  for one in evidence.wrong_sizes]  # fmt: skip
        for name, call, cause in wrong:
            smallest = self._smallest(tester, name, call, cause)
            yield (result := replace(result, counterexamples=[*result.counterexamples, smallest]))
        integers = f"; the ends of the integers in {', '.join(values.ranges)}" if values.ranges else ""
        sizes = "the example's sizes" if small is self._target.call else "smaller sizes, which are proven too"
        yield replace(result, summary=f"other values at {sizes}{integers}")

    def _batch(self, evidence: Evidence, budget: Budget) -> Iterator[BatchEvidence]:
        if why := _why_nothing_to_certify(evidence):
            yield BatchEvidence(summary=why)
            return
        assert evidence.groups is not None  # or there is nothing to certify
        bounds = evidence.probe.values.bounds
        target = self._with_small_example(evidence, STAND_IN_ROWS)
        memory = target.eager.memory
        if (why := memory.why_no_batch(target.call)) is not None:
            budget.leave_out(f"whether rows may be answered together: {why}")
            yield BatchEvidence(summary=_NO_ROOM_FOR_ROWS)
            return
        # The verification joins no more rows than that.
        most_bytes = min(most_input_bytes(self._target.call.byte_size), memory.most_input_bytes(target.call))
        proof = None if evidence.calls.contradicted else evidence.prove.proof
        runs = None if proof is None else proof.runs
        certified = certificate.certify(
            target, evidence.groups, _BATCH_MAX, budget, most_bytes, bounds=bounds, runs=runs
        )
        if isinstance(certified, Batch):
            yield BatchEvidence(certified, f"up to {certified.up_to} rows along {certified.symbol} together")
        else:
            yield BatchEvidence(summary=f"requests must be answered one by one: {certified.reason}")

    def _with_small_example(self, evidence: Evidence, least: int) -> Target:
        """Return the target with an example of smaller sizes, if it is proven that a trace does the same at both.

        A size that becomes smaller is not below `least`.
        """
        target, groups, proof = self._target, evidence.groups, evidence.prove.proof
        if groups is None or proof is None or target.form != "traced" or evidence.calls.contradicted:
            return target
        sizes = stand_in_sizes(proof.regions, groups.example, least)
        if sizes == groups.example:
            return target
        return replace(target, call=groups.resize(target.call, sizes, target.seed))

    def _size_states(self, calls: Sequence[SizeTest]) -> Iterator[SizeState]:
        """Yield the state that depends on sizes, if a call has shown any: first the difference, then what causes it."""
        shown = next((one for one in calls if one.aftereffect is not None), None)
        if shown is None or shown.aftereffect is None:
            return
        target = self._target
        yield (state := SizeState(shown.aftereffect))
        line = target.eager.find_state_line(target.call)
        changed = target.eager.find_aftereffect(
            shown.call, target.call, tolerance=target.tolerance, within_s=target.single_s
        )
        yield replace(state, is_settled=True, changed=changed, line=line)

    def _state_of_many_sizes(self, groups: Groups, budget: Budget) -> SizeState | None:
        """Return the state that calls of many sizes leave, one after another, if an answer depends on it."""
        found = find_effect_of_many_sizes(self._target, groups, budget.share(_MANY_SIZES_SHARE))
        if found is None:
            return None
        line = self._target.eager.find_state_line(self._target.call)
        return SizeState(found, is_settled=True, changed=found, line=line)

    def _choose_wanted_sizes(self, evidence: Evidence, groups: Groups) -> dict[str, Sequence[int]]:
        """Return the sizes to prove by symbol. A baked symbol has the example's size alone."""
        baked = {symbol for one in evidence.baked_sizes if not one.right for symbol in one.symbols}
        wanted: dict[str, Sequence[int]] = {**default_sizes(groups)}
        for symbol, one in self._requested.sizes.items():
            if symbol in wanted:
                wanted[symbol] = limit_sizes(range(one.low, one.high + 1, one.step), groups.example[symbol])
        return wanted | {symbol: [groups.example[symbol]] for symbol in baked}

    def _choose_reach(self, wanted: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return for symbols how large they may become beyond the wanted sizes: those whose sizes nobody named."""
        return {
            symbol: BEYOND_MAX
            for symbol, sizes in wanted.items()
            if symbol not in self._requested.sizes and len(sizes) > 1
        }

    def _note_unproven_sizes(self, wanted: Mapping[str, Sequence[int]], budget: Budget) -> None:
        """Report the requested sizes that are too many to be proven."""
        for symbol, one in self._requested.sizes.items():
            if symbol in wanted and len(wanted[symbol]) < len(range(one.low, one.high + 1, one.step)):
                budget.leave_out(
                    f"sizes of {symbol} outside {wanted[symbol][0]} to {wanted[symbol][-1]} were not proven"
                )

    def _smallest(self, tester: CauseTester, name: str, call: Call, cause: Cause | None = None) -> Counterexample:
        """Return the counterexample: the smallest call found that shows the same cause in the same way.

        Without a cause, or if no call shows the cause alone, all that is otherwise than on the example is the cause.
        """
        start = tester.find_call(call, cause, self._shrink_budget()) if cause is not None else None
        if start is None or cause is None:
            start, cause = call, tester.cause_of(call)
        symptom = tester.symptom_of(start)
        if symptom is None:
            return Counterexample(name_counterexample(name), call, cause)
        smallest = shrink(start, tester.groups, lambda one: tester.shows(one, cause, symptom), self._shrink_budget())
        return Counterexample(name_counterexample(name), smallest, cause)

    def _shrink_budget(self) -> Budget:
        return Budget(self._budget.left_s * _SHRINK_SHARE)


def _sizes_of(samples: Sequence[Call], groups: Groups) -> list[tuple[Mapping[str, int], Call]]:
    """Return the samples of other sizes than the example's, with these sizes, as far as symbols can have them."""
    solved = [(groups.sizes_of(sample), sample) for sample in samples]
    return [(sizes, sample) for sizes, sample in solved if sizes is not None and sizes != groups.example]


def _name_value(value: BakedValue) -> str:
    return "value" if value.line is None else name_value_read(value.line.file, value.line.line)


def _knows_more_to_prove(evidence: Evidence) -> bool:
    """Whether a second proof may show more than the first.

    Where that failed, harmless reads or baked sizes help; and it may settle a read that flips alone speak against.
    """
    proof = evidence.prove.proof
    has_help = evidence.flip.harmless_lines or any(not one.right for one in evidence.baked_sizes)
    return evidence.is_wrong or bool(has_help and proof is not None and proof.failed)


def _settles_all_reads(evidence: Evidence) -> bool:
    """Whether the proof shows that no value decides that Python reads.

    Without the help of flips it follows truths both ways. It may not see another value: a tensor without values has a
    text, say, that tells nothing.
    """
    reads_values = any(read.depends_on == "values" for read in evidence.observed_reads)
    return _is_proven_for_all_values(evidence) and not (reads_values and evidence.flip.judged)


def _is_proven_for_all_values(evidence: Evidence) -> bool:
    """Whether the proof holds at the example's sizes, and was made with each other value that Python may read there."""
    groups, proof = evidence.groups, evidence.prove.proof
    if groups is None or proof is None or not is_proven(groups.example, proof):
        return False
    read = (value for one in evidence.observed_reads if one.depends_on == "values" for value in one.values)
    return all(type(value) is bool for value in read)


def _count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _choose_wider(first: Proof | None, second: Proof) -> Proof:
    return second if first is None else max(second, first, key=lambda one: (one.proven, -one.failed - one.uncovered))


def _settled_by(proof: Proof | None) -> Callable[[Mapping[str, int]], bool]:
    return lambda sizes: proof is not None and is_proven(sizes, proof)


def _why_nothing_to_prove(evidence: Evidence) -> str | None:
    if evidence.groups is None or not evidence.groups.symbols:
        return _NO_SIZES
    if why := _why_nothing_to_claim(evidence):
        return why
    observation = evidence.observe.observation
    return _HAS_MEMORY if observation is None or observation.hands_memory_out else None


def _why_nothing_to_certify(evidence: Evidence) -> str | None:
    return _NO_SIZES if evidence.groups is None else _why_nothing_to_claim(evidence)


def _why_nothing_to_claim(evidence: Evidence) -> str | None:
    if evidence.is_wrong:
        return _NOTHING_TO_CLAIM
    return _MODEL_TAKES_ONE_SIZE if evidence.keeps_a_size else None


def _counterexamples_of(proof: Proof) -> list[tuple[Mapping[str, int], Call]]:
    return [(one.sizes, one.call) for one in proof.refutations if one.call is not None]


def _with_measured_memory(proof: Proof, memory: Memory | None) -> Proof:
    """Return the proof with this memory; without one, its regions end at the wanted sizes."""
    if memory is not None:
        return replace(proof, memory=memory)
    regions = [region.within_calls for region in proof.regions]
    return replace(proof, regions=regions, memory=None)


def _note_gaps(proof: Proof, budget: Budget) -> None:
    """Report the sizes that are not proven, and why."""
    for gap in proof.gaps:
        where = f" at {gap.line.file}:{gap.line.line}" if gap.line else ""
        what = f"sizes from {format_sizes(gap.sizes)} on are not proven: {gap.reason}{where}"
        budget.leave_out(what, is_cut=gap.is_cut)


def _summary_of_proof(proof: Proof) -> str:
    proven = f"{proof.proven} of {proof.points} sizes proven, {proof.refused} refused by the model"
    return f"{proven}; {_count(proof.cases, 'run')}"


def _summary_of_reads(judged: Sequence[ReadEffect]) -> str:
    """Return how many reads have each effect; reads of sizes apart, because calls of other sizes judge them."""
    of_sizes = [one for one in judged if one.read.depends_on == "sizes" and one.effect == "unknown"]
    effects = [one.effect for one in judged if one not in of_sizes]
    counts = [(effects.count(effect), effect) for effect in ("harmless", "harmful", "unknown")]
    values = _count(len(effects), "read") + ": " + ", ".join(f"{count} {effect}" for count, effect in counts if count)
    sizes = f"{_count(len(of_sizes), 'read')} of sizes, which calls of other sizes judge"
    return "; ".join([values] * bool(effects) + [sizes] * bool(of_sizes)) or "no reads"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
