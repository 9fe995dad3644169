"""The trace check: it compares the traced model with the eager one on every input at hand.

It runs in the process of the submitted code, which could forge its results. So its findings guide the verification, and
cannot hide a difference that the verification sees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tracehouse.check import conclusions, findings, scripted_graphs
from tracehouse.check.blame import BlamedLine, find_blamed_line
from tracehouse.check.call_memory import record_memory
from tracehouse.check.comparer import Comparer
from tracehouse.check.datatypes import with_datatypes
from tracehouse.check.determinism import Determinism
from tracehouse.check.evidence import Evidence
from tracehouse.check.fast_path_trials import pad_ends, try_fast_paths
from tracehouse.check.ledger import Ledger, OfferedCall, select_offered
from tracehouse.check.memory_limit import free_bytes
from tracehouse.check.memory_plan import plan_memory
from tracehouse.check.oracle import CallObservation, EagerOracle
from tracehouse.check.other_ranks import CheckedRanks, RankCheck, group_by_ranks
from tracehouse.check.pipeline import Pipeline, ReportLayer, RequestedSizes
from tracehouse.check.probe.probing import Probing
from tracehouse.check.target import Target
from tracehouse.contract.contract import MethodClaim
from tracehouse.contract.output_spec import Answers
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CallLimit, submitted_call
from tracehouse.differential.case_names import EXAMPLE, is_sample
from tracehouse.differential.offered_cases import CASE_NAME_MAX_CHARACTERS
from tracehouse.eager import fast_paths
from tracehouse.eager.call import Call, CheckCall
from tracehouse.eager.model import LoadedModel
from tracehouse.eager.parameter_marks import find_unseen_writes, mark_parameters
from tracehouse.findings import differences
from tracehouse.findings.comparison import count_samples
from tracehouse.findings.fast_paths import NO_PADDING_SEEN, SAME_ELSEWHERE, fast_paths_differ, fast_paths_off
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.repeatability import parameters_written
from tracehouse.findings.source_lines import GRAPHS_DIFFER, name_line
from tracehouse.findings.trace_check import Layer, TraceCheck
from tracehouse.findings.verdict import Verdict, verdict_of
from tracehouse.introspection import user_lines
from tracehouse.spec.trace_spec import CheckOptions
from tracehouse.step_times import step
from tracehouse.torchscript import train_mode
from tracehouse.torchscript.candidate import Candidate
from tracehouse.torchscript.trace import TraceResult

_PARAMETERS_NAMED_MAX = 10  # in one finding
_FAST_PATH_PROBES_MAX = 4  # probes that are asked again with fast paths. Chosen.
# Other datatypes of the inputs may take this fraction of the budget, beside it. Chosen: each is proven anew.
_DATATYPES_SHARE = 0.25
_DRAWN = (Kind.NONDETERMINISTIC, Kind.STOCHASTIC, Kind.DRAWS_RANDOM_NUMBERS)


@dataclass(frozen=True)
class CheckResult:
    """The check, and the calls that are worth comparing again; by method, a claim and the eager model's answers.

    A claim says for which sizes the artifact is right. `answers` has the shapes of the eager model's outputs at other
    sizes than the example's. `stochastic` are the methods of which the artifact drew random numbers. `other_ranks` says
    for which other ranks of the inputs it is right.
    """

    check: TraceCheck
    offered: list[OfferedCall]
    claims: dict[str, MethodClaim]
    answers: Mapping[str, Answers] = field(default_factory=dict)
    differing: list[OfferedCall] = field(default_factory=list)  # the check inputs and samples on which both differ
    stochastic: frozenset[str] = frozenset()
    other_ranks: Mapping[str, Sequence[CheckedRanks]] = field(default_factory=dict)


class Check:
    """The check of one model. `calls` has the example of each method.

    Call `run_examples` before the trace, because a model that refuses its example needs no trace, and `run` after it,
    once for each candidate. `options` say how answers are compared. `call_seed` seeds every call, and `seed` the inputs
    that are drawn. `later` is the limit of each call on an example after the first one. `is_traced` says whether the
    candidate will be a trace.
    """

    def __init__(
        self,
        model: LoadedModel,
        calls: Mapping[str, Call],
        options: CheckOptions,
        *,
        seed: int,
        call_seed: int,
        later: CallLimit,
        is_traced: bool,
    ) -> None:
        self._model = model
        self._eager = EagerOracle(model, call_seed, later, measures_rounding=options.measures_rounding)
        self._calls = calls
        self._tolerance = options.tolerance
        self._seed = seed
        self._is_traced = is_traced
        self._observed: dict[str, CallObservation] = {}
        self._samples: list[Call] = []
        self.without_fast_paths = False  # whether `run_examples` turned them off
        self._parameters = mark_parameters(model.module)

    def run_examples(self, first_s: float | None = None) -> dict[str, Any]:
        """Return the eager model's outputs on the examples, by method.

        If the values of a padding mask choose a path that a trace would keep, fast paths are off in this process from
        here on. Raises ModelRaised if the model refuses an example, and TooSlow if a first call takes longer than
        `first_s` seconds.
        """
        with fast_paths.record_masks() as masks:
            self._observe_examples(first_s)
        if masks and self._is_traced:
            fast_paths.turn_off()
            self.without_fast_paths = True
            self._observe_examples(first_s)
        return {method: observed.answers[0].outputs for method, observed in self._observed.items()}

    def _observe_examples(self, first_s: float | None) -> None:
        for method, call in self._calls.items():
            self._observed[method] = self._eager.observe(call, first_s=first_s)

    @property
    def example_s(self) -> float:
        """How many seconds the first calls on the examples took together."""
        return sum(observed.call_s for observed in self._observed.values())

    def run(
        self,
        candidate: Candidate,
        calls: Mapping[str, Call],
        check_calls: Sequence[CheckCall],
        options: CheckOptions,
        requested: Mapping[str, RequestedSizes],
        report: ReportLayer,
        budget_s: float,
    ) -> CheckResult:
        """Compare the candidate with the eager model within the budget, after `run_examples`.

        `calls` are the examples, as calls that know what their methods return. `requested` has the wanted sizes by
        method. `report` is called with each layer when it ends. Raises
        LimitExceeded if the artifact runs out of memory.
        """
        self._calls = calls
        self._samples = [given.call for given in check_calls if is_sample(given.name)]
        traced, ledger = candidate.traced, Ledger()
        comparer = Comparer(self._eager, traced, ledger, tolerance=self._tolerance, seed=self._eager.seed)
        determinism = Determinism(self._eager, comparer, self._observed, traced, ledger, self._tolerance)
        self._eager.memory = plan_memory(self._model.module, free_bytes())
        for method, call in self._calls.items():
            comparer.compare_example(call, self._observed[method].answers[0], self._plan_memory(call))
            determinism.check_example(call)
        for given in check_calls:
            method = given.call.method
            within_s = submitted_call(budget_s).after(self._observed[method].call_s)
            comparer.compare_check_input(given, self._calls[method], within_s)
        targets = self._targets(candidate)
        layers: list[Layer] = []
        evidence: dict[str, Evidence] = {}
        groups = {method: group_by_ranks(call, check_calls) for method, call in self._calls.items()}
        budget = Budget(budget_s)
        if options.probes != "off":
            probing = self._probing(traced, ledger, comparer, determinism, deep=options.probes == "deep")

            def keep(layer: Layer) -> None:
                report(_keep_layer(layers, layer.model_copy(update={"budget_left_s": round(budget.left_s, 4)})))

            # A group of other ranks takes as much time as a method.
            share = len(targets) / (len(targets) + sum(map(len, groups.values())))
            with step("layers"):
                evidence = self._evidence(candidate, targets, probing, budget.share(share), requested, keep)
        _blame_lines(traced, targets, evidence, ledger)
        for call in self._calls.values():
            if options.probes != "off" or self._eager.has_stopped:
                determinism.check_still_answers(call)
        determinism.report_draws(self._calls)
        determinism.report_generators(self._calls)
        if self.without_fast_paths:
            self._try_fast_paths(check_calls, ledger)
        self._report_unseen_writes(ledger)
        if candidate.form != "traced":
            _read_graphs(traced, [*self._calls], ledger)
        every = [
            *_findings_of_torch(traced, evidence.values(), ledger),
            *train_mode.find_train_mode(self._eager.module, traced.module),
            *_findings_of_layers(evidence, ledger),
            *ledger.findings,
        ]
        ranks: dict[str, list[CheckedRanks]] = {}
        if options.probes != "off" and verdict_of(ledger.comparisons, every) is not Verdict.REJECTED:
            ranks, not_covered = self._check_ranks(candidate, targets, groups, ledger, budget, options)
            every += not_covered
        check = TraceCheck(
            verdict=verdict_of(ledger.comparisons, every),
            tolerance=self._tolerance,
            comparisons=ledger.comparisons,
            findings=every,
            torch=traced.torch_check,
            layers=layers,
            budget_s=budget_s,
            budget=options.budget,
            samples=count_samples(ledger.comparisons),
            memory=self._eager.memory.record,
        )
        claims = {method: claim for method, one in evidence.items() if (claim := conclusions.claim_of(one)) is not None}
        if check.verdict is not Verdict.REJECTED:
            for_datatypes = Budget(budget_s * _DATATYPES_SHARE)
            with step("datatypes"):
                claims = {
                    method: with_datatypes(claim, targets[method], evidence[method], for_datatypes)
                    for method, claim in claims.items()
                }
        offered = select_offered([*_counterexamples(evidence.values()), *ledger.probes])
        answers = {method: conclusions.answers_of(evidence[method], claim) for method, claim in claims.items()}
        differs = {(one.method, one.case) for one in ledger.comparisons if not one.agrees}
        differing = [OfferedCall(one.name, one.call, agrees=False) for one in check_calls
                     if (one.call.method, one.name) in differs]  # fmt: skip
        stochastic = frozenset(ledger.stochastic_methods)
        return CheckResult(check, offered, claims, answers, differing, stochastic, ranks)

    @contextmanager
    def _plan_memory(self, call: Call) -> Iterator[None]:
        """Measure what the artifact's call in the body takes: the plan then says what the check may take."""
        with record_memory() as memory:
            yield
        if memory.most_bytes is not None:
            self._eager.memory = self._eager.memory.with_example(call, memory.most_bytes)

    def _check_ranks(
        self,
        candidate: Candidate,
        targets: Mapping[str, Target],
        groups: Mapping[str, Sequence[Sequence[CheckCall]]],
        ledger: Ledger,
        budget: Budget,
        options: CheckOptions,
    ) -> tuple[dict[str, list[CheckedRanks]], list[Finding]]:
        """Return by method what is known of inputs of other ranks, and findings on those that are not accepted."""
        checked: dict[str, list[CheckedRanks]] = {}
        not_covered: list[Finding] = []
        left = sum(map(len, groups.values()))
        for method, of_method in groups.items():
            agrees = {one.case: one.agrees for one in ledger.comparisons if one.method == method}
            warned = [one for one in candidate.traced.warnings if one.method in (method, None)]
            check = RankCheck(targets[method], candidate.traced, warned, agrees, deep=options.probes == "deep")
            share = budget.share(len(of_method) / left) if of_method else budget
            for one in check.run(of_method, share):
                if isinstance(one, Finding):
                    not_covered.append(one)
                else:
                    checked.setdefault(method, []).append(one)
            left -= len(of_method)
        return checked, not_covered

    def _try_fast_paths(self, check_calls: Sequence[CheckCall], ledger: Ledger) -> None:
        """Report that fast paths are off, and whether the model answers otherwise with them."""
        trials = []
        for method, call in self._calls.items():
            example = CheckCall(EXAMPLE, call)
            further = [*check_calls, *(CheckCall(one.name, one.call) for one in ledger.probes[:_FAST_PATH_PROBES_MAX])]
            cases = [example, *pad_ends(example), *(one for one in further if one.call.method == method)]
            tried = try_fast_paths(self._eager, cases, self._tolerance)
            trials.append(tried)
            if tried.difference is not None:
                ledger.findings.append(fast_paths_differ(method, tried.case, tried.difference))
        seen = SAME_ELSEWHERE if any(one.has_padding for one in trials) else NO_PADDING_SEEN
        ledger.findings.append(fast_paths_off("" if any(one.difference for one in trials) else seen))

    def _report_unseen_writes(self, ledger: Ledger) -> None:
        """Report parameters that calls wrote to, unseen by torch: in the artifact they were other ones meanwhile."""
        written = find_unseen_writes(self._parameters, mark_parameters(self._model.module))
        for method in self._calls if written else ():
            if not ledger.has(Kind.HIDDEN_STATE, method):
                ledger.findings.append(parameters_written(method, written[:_PARAMETERS_NAMED_MAX]))

    def _targets(self, candidate: Candidate) -> dict[str, Target]:
        return {
            method: Target(
                self._model, call, self._eager, candidate.traced.module, candidate.form, candidate.retrace,
                self._tolerance, self._seed,
            )
            for method, call in self._calls.items()
        }  # fmt: skip

    def _evidence(
        self,
        candidate: Candidate,
        targets: Mapping[str, Target],
        probing: Mapping[str, Probing],
        budget: Budget,
        requested: Mapping[str, RequestedSizes],
        report: ReportLayer,
    ) -> dict[str, Evidence]:
        """Run the layers method by method. Each method gets an equal share of the time that is left."""
        traced = candidate.traced
        evidence = {}
        for number, (method, target) in enumerate(targets.items()):
            warned = [one for one in traced.warnings if one.method in (method, None)]
            share = budget.share(1 / (len(targets) - number))
            sizes = requested.get(method, RequestedSizes())
            samples = [call for call in self._samples if call.method == method]
            evidence[method] = Pipeline(target, sizes, share, probing[method].run, report, samples).run(warned)
        return evidence

    def _probing(
        self, traced: TraceResult, ledger: Ledger, comparer: Comparer, determinism: Determinism, *, deep: bool
    ) -> dict[str, Probing]:
        # Python read a tensor's value, and may branch on it.
        warned = any(warned.reads_value for warned in traced.warnings)
        return {
            method: Probing(
                call,
                self._observed[method].call_s,
                self._eager,
                comparer,
                determinism,
                ledger,
                searching=warned or self._observed[method].reads_values,
                deep=deep,
                tolerance=self._tolerance,
                seed=self._seed,
            )
            for method, call in self._calls.items()
        }


def _blame_lines(
    traced: TraceResult, targets: Mapping[str, Target], evidence: Mapping[str, Evidence], ledger: Ledger
) -> None:
    """Enter into each finding that answers differ the line at fault, or that no line is known."""
    for place, finding in enumerate(ledger.findings):
        method = str(finding.evidence.get("method"))
        call = ledger.differing.get((finding.kind, method))
        if call is None:
            continue
        known = evidence.get(method)
        blamed = find_blamed_line(targets[method], known, call) if known is not None else None
        blamed = blamed or _line_of_torch_check(traced, known)
        if blamed is not None:
            line = user_lines.line_facts(blamed.line)
            entry = differences.blame_line(finding, line, blamed.known_by, reads_value=blamed.reads_value)
        else:
            warned = [one.line for one in traced.warnings if one.reads_value and one.line is not None]
            lines = dict.fromkeys(known.candidates if known is not None else warned)
            entry = differences.leave_line_open(finding, [name_line(one.file, one.line) for one in lines])
        ledger.findings[place] = entry


def _line_of_torch_check(traced: TraceResult, known: Evidence | None) -> BlamedLine | None:
    """Return the line of the first difference that torch's own check found; None if another cause is known."""
    line = findings.place_of(traced.torch_check) if traced.torch_check.passed is False else None
    if line is None or (known is not None and (known.is_wrong or known.wrong_sizes or line in known.harmless_lines)):
        return None
    return BlamedLine(line, GRAPHS_DIFFER, reads_value=False)


def _read_graphs(traced: TraceResult, methods: Sequence[str], ledger: Ledger) -> None:
    """Report what the graphs show and the calls have not."""
    for finding in scripted_graphs.inspect_graphs(traced.module, methods):
        method = str(finding.evidence["method"])
        is_drawn = any(ledger.has(kind, method) for kind in _DRAWN)
        if not ledger.has(finding.kind, method) and not (finding.kind == Kind.MAY_DRAW and is_drawn):
            ledger.findings.append(finding)


def _findings_of_layers(evidence: Mapping[str, Evidence], ledger: Ledger) -> list[Finding]:
    """Return the findings of the layers. Hidden state is left out for a method that has such a finding already, unless
    this one alone names a line."""
    return [
        finding
        for method, one in evidence.items()
        for finding in conclusions.findings_of(one)
        if finding.kind not in (Kind.HIDDEN_STATE, Kind.KEEPS_A_SIZE)
        or not ledger.has(Kind.HIDDEN_STATE, method)
        or (finding.line is not None and not _names_line_of_state(ledger, method))
    ]


def _names_line_of_state(ledger: Ledger, method: str) -> bool:
    known = (one for one in ledger.findings if one.kind == Kind.HIDDEN_STATE)
    return any(one.line is not None for one in known if one.evidence["method"] == method)


def _findings_of_torch(traced: TraceResult, evidence: Iterable[Evidence], ledger: Ledger) -> list[Finding]:
    """Return the tracer's warnings, judged by the layers or, where no layer ran, by the comparisons alone."""
    differs = any(finding.kind == Kind.OUTPUT_DIFFERS for finding in ledger.findings)
    lines = {warned.line for warned in traced.warnings}
    found = [warning for one in evidence for warning in conclusions.warnings_of(one)] or [
        findings.tracer_warning(warned, confirmed=True if differs and len(lines) == 1 else None)
        for warned in traced.warnings
    ]
    check = traced.torch_check
    if check.error is not None:
        found.append(findings.torch_check_erred(check))
    elif check.passed is False:
        found.append(findings.torch_check_failed(check))
    return found


def _counterexamples(evidence: Iterable[Evidence]) -> list[OfferedCall]:
    return [
        OfferedCall(shown.name[:CASE_NAME_MAX_CHARACTERS], shown.call, agrees=False)
        for one in evidence
        for shown in one.counterexamples
    ]


def _keep_layer(layers: list[Layer], layer: Layer) -> Layer:
    """Put the layer last, in place of an earlier run of it, and return it."""
    layers[:] = [one for one in layers if (one.name, one.method) != (layer.name, layer.method)] + [layer]
    return layer
