"""Verification: the verdict, computed from what the eager model and the artifact give apart from one another.

The process that traced ran submitted code, which can make it say anything. So none of what it said counts in the
artifact's favour: it is gone, and the archive is fixed by its hash, before anything is drawn here to ask on; the two
that are asked share nothing but the inputs; and what they give is compared here, by its bytes.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from service.protocol.bounds import cut_check, text_of
from service.protocol.messages import EXAMPLE
from service.protocol.tracer import Traced
from tracehouse.contract.contract import Contract, MethodClaim, MethodContract
from tracehouse.contract.input_spec import ValueRange
from tracehouse.differential import golden, random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.comparison import ComparisonResult, Difference, compare, compare_baked_arguments
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.errors import Failure, ModelUnrepeatable
from tracehouse.findings import coverage, differences, repeatability
from tracehouse.findings.duplicates import repeats
from tracehouse.findings.source_lines import only_warned_line
from tracehouse.findings.trace_check import Comparison, Finding, TraceCheck, verdict_of, worst
from tracehouse.reproducer import counterexamples
from tracehouse.reproducer.counterexamples import FoundCounterexample
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec
from workers.processes.client import EagerAnswer
from workers.processes.exits import malformed_message
from workers.processes.tracer import OfferedCase
from workers.verification import claims, gradients
from workers.verification.claims import VerifiedClaim
from workers.verification.differential_runs import DifferentialTester
from workers.verification.examples import Prepared

# At least and at most so many rounds of fresh inputs are compared on, the further ones within the time; and of so many
# the eager model may refuse some.
ROUNDS_LEAST, ROUNDS_MOST, ROUNDS_DRAWN = 2, 6, 12
# Each round tells less than the one before it: a small model has them all in this time, and a request for a large one
# is to be made longer by the least of them alone.
ROUNDS_S = 0.1
# Of the check's budget, what all claims together may be repeated for.
SHARE_OF_BUDGET = 0.3
# Beside the examples, so many golden cases and no more bytes of them are kept.
GOLDEN_CASES = 4
GOLDEN_BYTES = 16 * 2**20
# Of the cases that differ at other sizes than the example's, so many are asked once more at the example's, by their
# values.
VALUES_ASKED = 4

_AS_TRACED = ", as traced"


@dataclass(frozen=True)
class Verified:
    contract: Contract
    check: TraceCheck
    golden: list[golden.Case]
    counterexamples: list[FoundCounterexample]


class Verification:
    """Of one archive, when the child that made it and said this of it is gone."""

    def __init__(self, prepared: Prepared, said: Traced) -> None:
        self._sides = prepared.sides
        self._prepared = prepared
        self._said = said
        self._seed = prepared.sides.spec.options.seed
        self._tolerance = prepared.sides.spec.check.check_tolerance
        self._trials = DifferentialTester(prepared)
        self._comparisons: list[Comparison] = []
        self._recorded: Counter[str] = Counter()  # how many calls of each method were compared in the served form
        self._findings: list[Finding] = []

    def run(self, offered: Sequence[OfferedCase]) -> Verified:
        """Everything is asked first: which of it lies in the contract is known when that is made. Raises TraceError."""
        observed = self._prepared.contract()
        if observed != self._said.contract:
            raise ModelUnrepeatable(f"loaded again, {_otherwise(observed, self._said.contract)}")
        for method in self._prepared.examples:
            self._trials.add_example(method)
        for given in self._prepared.check_inputs:
            self._ask_given(given)
        for case in offered:
            self._ask_offered(case)
        held = self._held(observed)
        self._ask_by_values()
        for method in self._prepared.examples:
            self._ask_fresh(method)
        contract = _contract(observed, held, is_open=self._sides.spec.check.contract == "open")
        self._tell(contract)
        for method in self._prepared.examples:
            self._ask_again(method)
        if self._sides.spec.check.gradients:
            for method in self._prepared.examples:
                self._compare_gradients(method)
        check = self._check()
        found = counterexamples.choose_counterexamples(self._trials.all, self._prepared.examples, check.findings)
        check = check.model_copy(update={"findings": counterexamples.link_findings(check.findings, found)})
        return Verified(contract, check, self._golden(contract), found)

    def _ask_given(self, given: BoundCall) -> None:
        example = self._prepared.examples[given.method]
        if (baked := compare_baked_arguments(example.arguments, given.arguments)) is not None:
            both = FormComparisons(ComparisonResult(None, baked))
            self._trials.add(DifferentialRun(given, given.case, given.specs, {}, both, []))
            return
        self._trials.ask(given, given.case, given.inputs, keep=True)

    def _ask_offered(self, case: OfferedCase) -> None:
        example = self._prepared.examples.get(case.method)
        if example is None or _kinds(case.inputs) != _kinds(example.inputs):
            raise malformed_message("it offered inputs that the contract does not take")
        self._trials.ask(example, case.name, case.inputs, keep=True)

    def _held(self, observed: Contract) -> dict[str, VerifiedClaim]:
        """Of what was claimed, by methods."""
        spec = self._sides.spec
        if spec.check.probes == "off":
            return {}
        if not self._said.claims.keys() <= observed.methods.keys():
            raise malformed_message("it claims something of a method that there is not")
        deep = spec.check.probes == "deep"
        budget = Budget(spec.check.budget_s * (1.0 if deep else SHARE_OF_BUDGET), patience=1)
        held = {}
        for place, (method, claim) in enumerate(self._said.claims.items()):
            share = budget.share(1 / (len(self._said.claims) - place))
            call = self._prepared.examples[method]
            contract = _claimed(observed.methods[method], claim)
            held[method] = claims.repeated(self._trials, call, contract, claim, share, deep=deep)
            for finding in held[method].findings:
                self._doubt(finding)
        return held

    def _ask_by_values(self) -> None:
        """Whether it is the values that make cases differ, and not their sizes: then they do at the example's too."""
        differing = [one for one in self._trials.all if one.differs and one.shown is not None]
        asked = 0
        for trial in differing:
            example = self._prepared.examples[trial.method]
            shapes = {spec.name: spec.shape for spec in example.specs}
            alike = trial.is_as_in(example) and _kinds(trial.inputs) == _kinds(example.inputs)
            if asked == VALUES_ASKED or not alike or trial.shapes == shapes:
                continue
            assert trial.shown is not None  # as it was chosen
            asked += 1
            case = f"{trial.case}, its values at the example's sizes"
            self._trials.ask(example, case, random_inputs.tile(trial.shown.inputs, shapes))

    def _ask_fresh(self, method: str) -> None:
        example = self._prepared.examples[method]
        rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        until = time.monotonic() + ROUNDS_S
        compared = 0
        refused: list[Failure] = []
        for inputs in islice(random_inputs.draw_rounds(example.inputs, rng), ROUNDS_DRAWN):
            if compared == ROUNDS_MOST or (compared >= ROUNDS_LEAST and time.monotonic() > until):
                break
            trial = self._trials.ask(example, f"fresh {compared + 1}", inputs)
            if trial.refusal is not None:
                refused.append(trial.refusal)
            else:
                compared += trial.compared is not None
        if not compared:
            self._findings.append(
                coverage.fresh_inputs_refused(method, refused[-1]) if refused else coverage.fresh_inputs_none(method)
            )

    def _tell(self, contract: Contract) -> None:
        """Of each trial what it means, by whether the contract takes its inputs."""
        for trial in self._trials.all:
            in_contract = self._takes(contract, trial)
            if trial.compared is not None:
                self._record(trial, trial.case, trial.compared, in_contract=in_contract)
            elif (
                trial.refusal is not None and in_contract and trial.answered and differences.model_raised(trial.refusal)
            ):
                self._doubt(differences.answers_where_eager_raises(trial.method, trial.case, trial.refusal))
            if trial.refusal is not None and trial.call.case != EXAMPLE:
                self._doubt(coverage.check_input_refused(trial.case, trial.refusal))

    def _takes(self, contract: Contract, trial: DifferentialRun) -> bool:
        method = contract.methods[trial.method]
        if not trial.is_as_in(self._prepared.examples[trial.method]) or not method.takes(trial.inputs):
            return False
        return all(_lie_within(spec.values, trial.ranges.get(spec.name)) for spec in method.inputs)

    def _ask_again(self, method: str) -> None:
        """Both must answer the same, whatever they were asked meanwhile, and whatever eager draws at random."""
        call, first = self._prepared.examples[method], self._prepared.answers[method]
        self._sides.eager.ask(call, call.inputs, seed=self._seed + 1, within_s=None)
        asked = self._recorded[method]
        # In the end the artifact has been called so often that it is the specialised one which was asked.
        times = max(1, golden.CALLS_TO_SPECIALISE - asked)
        compared = [self._sides.compared_example(call, first) for _ in range(times)]
        example = next(trial for trial in self._trials.all if trial.call is call)
        self._record(example, f"{EXAMPLE}, again", _first_that_differs(compared), in_contract=True)
        again = self._sides.eager.answer()
        if isinstance(again, Failure):
            difference = Difference("output", f"in the end it raises: {again.detail}")
            self._doubt(repeatability.hidden_state(method, difference))
            return
        drew = first.drew or again.drew
        sides = ("the first call", "the last one")
        changed = compare(first.answer, again.answer, 0.0 if drew else self._tolerance, sides).difference
        if changed is not None:
            unrepeatable = repeatability.nondeterministic if drew else repeatability.hidden_state
            self._doubt(unrepeatable(method, changed))

    def _compare_gradients(self, method: str) -> None:
        sides, example, first = self._sides, self._prepared.examples[method], self._prepared.answers[method]
        assert sides.as_traced is not None  # as the request asks
        if first.drew:
            self._findings.append(differences.gradients_not_compared(method, "eager draws random numbers"))
            return
        within_s = self._trials.within_s(method)
        found = gradients.compare_on(example, sides.eager, sides.as_traced, self._tolerance, within_s)
        for case, compared in found.cases:
            self._list(method, f"{case}, gradients", compared, in_contract=True)
            if compared.difference is not None:
                self._doubt(differences.gradients_differ(method, case, compared.difference))
        if found.left_out is not None:
            self._findings.append(differences.gradients_not_compared(method, found.left_out))

    def _record(self, trial: DifferentialRun, case: str, compared: FormComparisons, *, in_contract: bool) -> None:
        method = trial.method
        self._recorded[method] += 1
        self._list(method, case, compared.served, in_contract=in_contract)
        as_traced = compared.as_traced or compared.served
        if compared.as_traced is not None:
            self._list(method, f"{case}{_AS_TRACED}", compared.as_traced, in_contract=in_contract)
        if as_traced.difference is not None:
            self._doubt(self._output_differs(method, case, as_traced.difference, in_contract=in_contract))
        elif compared.served.difference is not None:
            form = self._sides.spec.options.served_form
            assert form is not None  # or it would be the same that differs
            self._doubt(differences.served_form_differs(method, case, compared.served.difference, form))

    def _output_differs(self, method: str, case: str, difference: Difference, *, in_contract: bool) -> Finding:
        """Return the finding of a difference, at the line that the tracer warned of, if it warned of one alone."""
        line = only_warned_line(self._said.check.findings)
        return differences.output_differs(
            method, case, difference, in_contract=in_contract, reads_value=bool(line), line=line
        )

    def _list(self, method: str, case: str, compared: ComparisonResult, *, in_contract: bool) -> None:
        difference = compared.difference
        self._comparisons.append(
            Comparison(
                method=method,
                case=case,
                in_contract=in_contract,
                agrees=compared.agrees,
                largest_difference=compared.largest,
                difference=f"{difference.leaf}: {difference.what}" if difference else None,
            )
        )

    def _doubt(self, finding: Finding) -> None:
        """One of each kind is enough of a method, and the tracing child's knows more of the lines."""
        known = [*self._said.check.findings, *self._findings]
        if not any(repeats(other, finding) for other in known):
            self._findings.append(finding)

    def _golden(self, contract: Contract) -> list[golden.Case]:
        """The examples, and beside them some of what the contract takes and both agree on."""
        prepared = self._prepared
        cases = [_golden(method, call.inputs, prepared.answers[method]) for method, call in prepared.examples.items()]
        left_bytes = GOLDEN_BYTES
        taken = [trial for trial in self._trials.all if self._takes(contract, trial)]
        for case in self._trials.golden(taken):
            if len(cases) < len(prepared.examples) + GOLDEN_CASES and case.byte_size <= left_bytes:
                cases.append(case)
                left_bytes -= case.byte_size
        return cases

    def _check(self) -> TraceCheck:
        """The tracing child's part in it can make the verdict worse, and nothing better."""
        said = self._said.check
        findings = [*self._findings, *said.findings]  # of too many, the last are cut
        found = [differences.with_better_remedy(one, findings, self._sides.spec) for one in findings]
        ours = verdict_of(self._comparisons, found)
        return cut_check(
            TraceCheck(
                verdict=worst([ours, said.verdict]),
                tolerance=self._tolerance,
                comparisons=self._comparisons,
                findings=found,
                torch=said.torch,
                layers=said.layers,
                budget_s=said.budget_s,
            )
        )


def _claimed(observed: MethodContract, claim: MethodClaim) -> MethodContract:
    """The contract that the claim would make. Raises ModelCrashed where it is not of this example."""
    try:
        return observed.with_claim(claim)
    except ValueError as error:
        raise malformed_message(f"it claims what its example is not: {text_of(error)}") from error


def _contract(observed: Contract, held: Mapping[str, VerifiedClaim], *, is_open: bool) -> Contract:
    claimed = {method: observed.methods[method].with_claim(one.claim, one.answers) for method, one in held.items()}
    return Contract(methods={**observed.methods, **claimed}, open=is_open)


def _kinds(inputs: Iterable[Tensor | TensorSpec]) -> list[tuple[str, Datatype, int]]:
    """What of inputs no size changes."""
    return [(tensor.name, tensor.datatype, len(tensor.shape)) for tensor in inputs]


def _lie_within(values: ValueRange | None, seen: tuple[int, int] | None) -> bool:
    return values is None or seen is None or values.contains(*seen)


def _first_that_differs(compared: Sequence[FormComparisons]) -> FormComparisons:
    return next((one for one in compared if not one.agrees), compared[0])


def _golden(method: str, inputs: Sequence[Tensor], eager: EagerAnswer) -> golden.Case:
    return golden.Case(method, inputs, list(eager.answer.leaves.values()))


def _otherwise(actual: Contract, claimed: Contract) -> str:
    """Where the model that was loaded again is another one than the model that was traced."""
    for method, now in actual.methods.items():
        was = claimed.methods[method]
        for what in ("arguments", "inputs", "outputs", "returns"):
            if getattr(now, what) != getattr(was, what):
                return f"{method} has other {what} than when it was traced"
    return "it has other methods"
