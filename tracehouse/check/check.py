"""The trace check: the traced model against the eager one, on every input at hand.

It runs beside submitted code: what it finds, with the lines at fault, aims the verification and can only add to it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tracehouse.artifact.manifest import Form
from tracehouse.check import findings, scripted_graphs
from tracehouse.check.calls import Answer, call_artifact
from tracehouse.check.inputs.layouts import vary_layouts
from tracehouse.check.inputs.probes import ValueBounds, generate_probes
from tracehouse.check.oracle import CallObservation, EagerOracle
from tracehouse.check.pipeline import Found, MethodCheck, RequestedSizes, Say
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import MethodClaim
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import ComparisonResult, Difference, compare_baked_arguments
from tracehouse.differential.offered_cases import CASE_NAME_MAX_CHARACTERS, CASES_MAX, CASES_MAX_BYTES
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory
from tracehouse.eager.model import Model
from tracehouse.errors import ModelRaised
from tracehouse.findings import verification
from tracehouse.findings.kinds import Kind
from tracehouse.findings.trace_check import Comparison, Finding, Layer, TraceCheck, verdict_of
from tracehouse.introspection import script_graphs, user_lines
from tracehouse.spec.trace_spec import CheckOptions
from tracehouse.torch_values.compare import compare
from tracehouse.torchscript import train_mode
from tracehouse.torchscript.trace import Retrace, Traced

# Of the probes that agreed, so many are offered, to be kept as golden cases: fresh inputs tell more.
AGREEING_OFFERED = 1
# Two runs can draw alike by chance, as where a model skips a layer now and then.
CALLS_WHERE_RANDOM = 6
# The check is to stay small beside the trace: no probe is started after so long, or so many times the examples' time.
PROBES_S = 1.0
PROBES_TIMES_EXAMPLE = 20
# A probe's values can make a loop of the model's very long: eager is stopped after so long.
PROBE_S = 1.0
PROBE_TIMES_EXAMPLE = 20


@dataclass(frozen=True)
class Offered:
    """A probe that is worth being tried again."""

    name: str
    call: Call
    agrees: bool


@dataclass(frozen=True)
class Checked:
    check: TraceCheck
    offered: list[Offered]
    claims: dict[str, MethodClaim]


class Check:
    """`examples` comes before the trace, for what eager refuses needs none; `run` after it, once for each candidate."""

    def __init__(self, model: Model, calls: Mapping[str, Call], *, tolerance: float, seed: int) -> None:
        self._model = model
        self._eager = EagerOracle(model, seed)
        self._calls = calls
        self._tolerance = tolerance
        self._seed = seed
        self._examples: dict[str, CallObservation] = {}
        self._example_s: dict[str, float] = {}
        self._comparisons: list[Comparison] = []
        self._findings: list[Finding] = []
        self._tried: list[Offered] = []
        self._drew: set[str] = set()  # the methods of which an answer did
        self._layers: list[Layer] = []
        self._deep = False

    def examples(self) -> dict[str, Any]:
        """Eager's outputs on the examples. Raises ModelRaised."""
        for method, call in self._calls.items():
            started = time.monotonic()
            self._examples[method] = self._eager.observe(call)
            self._example_s[method] = (time.monotonic() - started) / 2
        return {method: observed.answers[0].outputs for method, observed in self._examples.items()}

    def run(
        self,
        traced: Traced,
        form: Form,
        retrace: Retrace | None,
        check_calls: Sequence[CheckCall],
        options: CheckOptions,
        wishes: Mapping[str, RequestedSizes],
        say: Say,
    ) -> Checked:
        """`wishes` are by methods; `say` is told each layer as it ends."""
        self._traced = traced
        self._comparisons, self._findings, self._tried, self._drew = [], [], [], set()
        self._deep = options.probes == "deep"
        for call in self._calls.values():
            self._check_example(call)
            self._check_repeated(call)
        for given in check_calls:
            self._check_given(given)
        targets = {
            method: Target(self._model, call, self._eager, traced.module, form, retrace, self._tolerance, self._seed)
            for method, call in self._calls.items()
        }
        found = self._found(targets, Budget(options.budget_s), wishes, say) if options.probes != "off" else {}
        self._tell_of_draws()
        if form != "traced":
            self._read_graphs()
        of_layers = [
            finding
            for method, one in found.items()
            for finding in one.findings
            if finding.kind not in (Kind.HIDDEN_STATE, Kind.KEEPS_A_SIZE) or not self._has(Kind.HIDDEN_STATE, method)
        ]
        every = [
            *self._of_torch(found),
            *train_mode.found(self._eager.module, traced.module),
            *of_layers,
            *self._findings,
        ]
        return Checked(
            TraceCheck(
                verdict=verdict_of(self._comparisons, every),
                tolerance=self._tolerance,
                comparisons=self._comparisons,
                findings=every,
                torch=traced.torch_check,
                layers=self._layers,
                budget_s=options.budget_s,
            ),
            _offered([one for each in found.values() for one in _shown(each)] + self._tried),
            {method: one.claim for method, one in found.items() if one.claim is not None},
        )

    def _found(
        self, targets: Mapping[str, Target], budget: Budget, wishes: Mapping[str, RequestedSizes], say: Say
    ) -> dict[str, Found]:
        """What the layers come to, method by method; each has its part of the time that is left."""

        def told(layer: Layer) -> None:
            self._layers.append(layer)
            say(layer)

        found: dict[str, Found] = {}
        for number, (method, target) in enumerate(targets.items()):
            warned = [one for one in self._traced.warnings if one.method in (method, None)]
            share = budget.share(1 / (len(targets) - number))
            check = MethodCheck(target, warned, wishes.get(method, RequestedSizes()), share, told)
            found[method] = check.run(partial(self._probe, method, share))
        return found

    def _check_example(self, call: Call) -> None:
        answer = self._examples[call.method].answers[0]
        self._record(call, "example", self._compared(call, answer), in_contract=True)
        written = [
            name for name, tensor in call.tensors.items() if not compare(tensor, answer.inputs[name], 0.0).agrees
        ]
        if written:
            self._findings.append(findings.changes_input(call, written))

    def _check_repeated(self, call: Call) -> None:
        """Whether eager itself answers the same again: if not, there is nothing that an artifact could equal."""
        observed = self._examples[call.method]
        first, *others = observed.answers
        said = self._traced.torch_check
        if first.drew or (said.ran and not said.passed):
            others = [*others, *self._eager.repeat(call, CALLS_WHERE_RANDOM)]
        for again in others:
            self._check_same(call, first, again, "a later one")
        # A counter that a later call is going to compare with sixty answers the same until then, on all inputs; and
        # which values of it would change an answer cannot be found by trying.
        if observed.hidden_states and not self._has(Kind.HIDDEN_STATE, call.method):
            self._findings.append(findings.carries_state(call, observed.hidden_states))

    def _check_given(self, given: CheckCall) -> None:
        example = self._calls[given.call.method]
        try:
            answer = self._eager.answer(given.call)
        except ModelRaised as error:
            self._findings.append(findings.refused_check_input(given.name, error))
            return
        baked = compare_baked_arguments(observed_contract.arguments(example), observed_contract.arguments(given.call))
        if baked is not None:
            self._record(given.call, given.name, ComparisonResult(None, baked), in_contract=False)
            return
        compared = self._compared(given.call, answer)
        self._record(given.call, given.name, compared, in_contract=observed_contract.same(example, given.call))

    def _probe(self, method: str, budget: Budget, ends: ValueBounds) -> None:
        wanted_s = max(PROBES_S, PROBES_TIMES_EXAMPLE * self._example_s[method]) * (10 if self._deep else 1)
        own = Budget(min(wanted_s, max(PROBES_S, budget.left_s)))
        left_out: list[str] = []
        too_slow: list[str] = []
        example = self._calls[method]
        within_s = max(PROBE_S, min(PROBE_TIMES_EXAMPLE * self._example_s[method], own.seconds))
        for name, probe in generate_probes(
            example, searching=self._may_branch(method), deep=self._deep, ends=ends, seed=self._seed
        ):
            if own.is_spent:
                left_out.append(f"{method} {name}")
                continue
            try:
                answer = self._eager.answer(probe, within_s=within_s)
            except ModelRaised as error:  # such values are none for this model
                self._check_refusal(probe, name, error)
                continue
            except TooSlow:
                too_slow.append(f"{method} {name}")
                continue
            compared = self._compared(probe, answer)
            is_offered = not compared.agrees or not any(one.agrees for one in self._tried)
            is_repeatable = partial(self._eager.is_repeatable, tolerance=self._tolerance, within_s=within_s)
            if is_offered and not is_repeatable(probe, answer):
                continue
            self._record(probe, name, compared, in_contract=True)
            self._tried.append(Offered(name, probe, compared.agrees))
            try:
                self._check_state_left(example, name, answer, within_s)
                self._check_drawn(probe, name, answer, within_s)
            except ModelRaised:
                continue  # on other random numbers
            except TooSlow:
                too_slow.append(f"{method} {name}, again")
        if self._deep:
            self._try_layouts(example, within_s)
        if left_out:
            self._findings.append(findings.probes_left_out(left_out, f"the probes took over {own.seconds:.3g} s"))
        if too_slow:
            self._findings.append(
                findings.probes_left_out(too_slow, "eager took far longer on them than on the example")
            )

    def _try_layouts(self, example: Call, within_s: float) -> None:
        """Nobody sends such inputs over HTTP; whoever takes the archive away may have them."""
        for name, call in vary_layouts(example):
            try:
                compared = self._compared(call, self._eager.answer(call, within_s=within_s))
            except (ModelRaised, TooSlow):
                continue
            if compared.difference is not None:
                self._findings.append(findings.layout_differs(call, name, compared.difference))

    def _check_refusal(self, probe: Call, case: str, error: ModelRaised) -> None:
        """What eager refuses, the artifact should not answer."""
        if self._has(Kind.ANSWERS_WHERE_EAGER_RAISES, probe.method):
            return
        try:
            call_artifact(self._traced.module, probe, self._seed)
        except Exception as refusal:
            if is_out_of_memory(refusal):
                raise out_of_memory(refusal) from refusal
            return
        self._findings.append(verification.answers_where_eager_raises(probe.method, case, error.failure()))

    def _tell_of_draws(self) -> None:
        """What was drawn and showed in no answer, as of a dropout that drops next to nothing."""
        for method in self._calls:
            if method in self._drew and not self._has(Kind.NONDETERMINISTIC, method):
                graph = script_graphs.methods(self._traced.module)[method].inlined_graph
                self._findings.append(findings.draws(method, next(scripted_graphs.drawing(graph), None)))

    def _read_graphs(self) -> None:
        """What they show, of which the calls have shown nothing."""
        for finding in scripted_graphs.found(self._traced.module, [*self._calls]):
            method = str(finding.evidence["method"])
            if not self._has(finding.kind, method) and not (finding.kind == Kind.MAY_DRAW and self._is_drawn(method)):
                self._findings.append(finding)

    def _is_drawn(self, method: str) -> bool:
        return any(self._has(kind, method) for kind in (Kind.NONDETERMINISTIC, Kind.DRAWS_RANDOM_NUMBERS))

    def _may_branch(self, method: str) -> bool:
        """Whether a value of a tensor became Python's, where nothing keeps it from deciding what is computed."""
        warned = any(warned.reads_value for warned in self._traced.warnings)
        return warned or self._examples[method].reads_values

    def _check_state_left(self, example: Call, case: str, answer: Answer, within_s: float) -> None:
        """What a call left behind, as a cache that the first call fills, must not show in the next answer."""
        if answer.left_state and not self._has(Kind.HIDDEN_STATE, example.method):
            try:
                again = self._eager.answer_again(example, within_s=within_s)
            except ModelRaised as error:
                difference = Difference("output", f"after {case!r} it raises: {error.detail}")
                self._findings.append(findings.hidden_state(example, difference, self._line_of_state(example)))
                return
            self._check_same(example, self._examples[example.method].answers[0], again, f"one after {case!r}")

    def _check_drawn(self, probe: Call, case: str, answer: Answer, within_s: float) -> None:
        """Little noise is lost beside large values, and is all that there is beside zeros."""
        if answer.drew and not self._has(Kind.NONDETERMINISTIC, probe.method):
            again = self._eager.answer(probe, within_s=within_s, draw=1)
            self._check_same(probe, answer, again, f"another one on {case!r}")

    def _check_same(self, call: Call, first: Answer, again: Answer, other: str) -> None:
        """Two answers of eager's. Numbers drawn at random show in the least of differences."""
        drew = first.drew or again.drew
        if drew:
            self._drew.add(call.method)
        sides = ("the first call", other)
        difference = compare(first.outputs, again.outputs, 0.0 if drew else self._tolerance, sides=sides).difference
        if difference is None or self._has(Kind.NONDETERMINISTIC if drew else Kind.HIDDEN_STATE, call.method):
            return
        if drew:
            graph = script_graphs.methods(self._traced.module)[call.method].inlined_graph
            self._findings.append(findings.nondeterministic(call, difference, graph, self._eager.find_draw_line(call)))
        else:
            self._findings.append(findings.hidden_state(call, difference, self._line_of_state(call)))

    def _compared(self, call: Call, eager: Answer) -> ComparisonResult:
        try:
            answer = call_artifact(self._traced.module, call, self._seed)
        except Exception as error:
            if is_out_of_memory(error):
                raise out_of_memory(error) from error
            return ComparisonResult(None, Difference("output", f"the artifact raised: {_last_line(error)}"))
        if eager.drew or answer.drew:
            self._drew.add(call.method)
        outputs = compare(eager.outputs, answer.outputs, self._tolerance)
        if not outputs.agrees:
            return outputs
        inputs = compare(eager.inputs, answer.inputs, self._tolerance, "input")
        if inputs.difference is None:
            return outputs
        left = inputs.difference
        return ComparisonResult(
            outputs.largest,
            Difference(left.leaf, f"afterwards {left.what}", left.index, left.eager, left.artifact),
        )

    def _record(self, call: Call, case: str, compared: ComparisonResult, *, in_contract: bool) -> None:
        difference = compared.difference
        self._comparisons.append(
            Comparison(
                method=call.method,
                case=case,
                in_contract=in_contract,
                agrees=compared.agrees,
                largest_difference=compared.largest,
                difference=f"{difference.leaf}: {difference.what}" if difference else None,
            )
        )
        if difference is not None and not self._reported(call, in_contract):
            self._findings.append(
                findings.differs(
                    call, case, difference, self._traced.warnings, in_contract=in_contract, suspect=self._suspect
                )
            )

    def _reported(self, call: Call, in_contract: bool) -> bool:
        """One finding of a method is enough of each kind: the comparisons list all cases."""
        return self._has(Kind.OUTPUT_DIFFERS if in_contract else Kind.OUTPUT_DIFFERS_ELSEWHERE, call.method)

    def _has(self, kind: str, method: str) -> bool:
        return any(finding.kind == kind and finding.evidence["method"] == method for finding in self._findings)

    def _line_of_state(self, call: Call) -> user_lines.Line | None:
        """The line that reads what an earlier call left, where that was seen."""
        carried = (one.line for one in self._examples[call.method].hidden_states if one.line is not None)
        return next(carried, None) or self._eager.find_state_line(call) or self._suspect

    @property
    def _suspect(self) -> user_lines.Line | None:
        """The line that most likely made them differ: where a value left the trace, or where two traces part."""
        warned = next((warned.line for warned in self._traced.warnings if warned.line), None)
        said = self._traced.torch_check
        return warned or (findings.place_of(said) if said.passed is False else None)

    def _of_torch(self, checked: Mapping[str, Found]) -> list[Finding]:
        """The warnings as the layers judge them, each once, or as far as the comparisons tell."""
        differs = any(finding.kind == Kind.OUTPUT_DIFFERS for finding in self._findings)
        found = [warning for one in checked.values() for warning in one.warnings] or [
            findings.tracer_warning(warned, confirmed=True if differs and warned.line == self._suspect else None)
            for warned in self._traced.warnings
        ]
        said = self._traced.torch_check
        if said.error is not None:
            found.append(findings.torch_check_erred(said))
        elif said.passed is False:
            found.append(findings.torch_check_failed(said))
        return found


def _shown(found: Found) -> list[Offered]:
    return [Offered(name[:CASE_NAME_MAX_CHARACTERS], call, agrees=False) for name, call in found.counterexamples]


def _offered(tried: Sequence[Offered]) -> list[Offered]:
    """Those that disagreed come first."""
    agreeing = [one for one in tried if one.agrees][:AGREEING_OFFERED]
    offered: list[Offered] = []
    left_bytes = CASES_MAX_BYTES
    for one in [one for one in tried if not one.agrees] + agreeing:
        byte_size = sum(tensor.nbytes for tensor in one.call.tensors.values())
        if len(offered) < CASES_MAX and byte_size <= left_bytes and len(one.name) <= CASE_NAME_MAX_CHARACTERS:
            offered.append(one)
            left_bytes -= byte_size
    return offered


def _last_line(error: Exception) -> str:
    """torch puts what happened at the end, after the lines of the graph."""
    text = user_lines.text_of(error).strip()
    return text.splitlines()[-1] if text else type(error).__name__
