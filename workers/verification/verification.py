"""Verification: the verdict, computed from what the eager model and the artifact answer apart from one another.

The process that traced ran submitted code, which can make it say anything. It is gone, and the archive is fixed by its
hash, before any input is drawn here; the two processes that are asked share nothing but the inputs; and their answers
are compared here, by their bytes. What it claims of sizes that are not called here, and of rows, stays its claim: calls
can refute that, and cannot show it. So the contract says which sizes were called here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.protocol.bounds import text_of
from service.protocol.tracer import Traced
from tracehouse.byte_units import MIB
from tracehouse.contract.contract import Batch, Contract, MethodClaim, MethodContract, OtherRanks
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.input_spec import ValueRange
from tracehouse.contract.key_orders import KeyOrder
from tracehouse.contract.widening import accepts_more, list_refuted_sizes, widen
from tracehouse.differential import golden, random_inputs
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.case_names import EXAMPLE, is_sample, name_draw
from tracehouse.differential.comparison import Answer, ComparisonResult, Difference, compare, compare_baked_arguments
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.differential.form_comparisons import FormComparisons
from tracehouse.differential.key_order_trials import ORDERS_SHARE_OF_BUDGET
from tracehouse.differential.named_budgets import budget_seconds
from tracehouse.errors import Failure, ModelUnrepeatable
from tracehouse.findings import coverage, differences, repeatability
from tracehouse.findings.fast_paths import fast_paths_off
from tracehouse.findings.further_check import contract_kept, contract_refuted
from tracehouse.findings.trace_check import TraceCheck
from tracehouse.reproducer import counterexamples
from tracehouse.reproducer.counterexamples import FoundCounterexample
from tracehouse.step_times import step
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec
from workers.processes.client import EagerAnswer
from workers.processes.exits import malformed_message
from workers.processes.tracer import OfferedCase
from workers.verification import gradients
from workers.verification.check_record import CheckRecord
from workers.verification.claims import VerifiedClaim, verify_claim
from workers.verification.differential_runs import DifferentialTester, make_golden_case
from workers.verification.examples import ExampleRuns
from workers.verification.fresh_rounds import ask_fresh, draw_seed
from workers.verification.key_orders import verify_key_orders
from workers.verification.rank_claims import RankVerifier

# How many times the example is compared under other random numbers, if some are drawn. A choice: a draw that a model
# makes now and then may be missed.
DRAWS = 4
# The part of the check's budget in which all claims together are verified.
SHARE_OF_BUDGET = 0.3
# Golden cases beside the examples: how many, and their bytes together.
GOLDEN_CASES = 4
GOLDEN_BYTES = 16 * MIB
# How many cases that differ at other sizes are asked once more at the example's sizes, by their values.
VALUES_ASKED = 4
_BUCKETS = "with buckets, each artifact accepts the ranks of its example alone"
_TWO_CALLS = ("the first call", "the last one")


@dataclass(frozen=True)
class VerificationResult:
    """What an artifact is right for, the check that shows it, its golden cases and its counterexamples.

    `refutes`: whether a wrong answer was found that the contract before, from which the check went on, promises.
    """

    contract: Contract
    check: TraceCheck
    golden: list[golden.GoldenCase]
    counterexamples: list[FoundCounterexample]
    refutes: bool = False


class Verification:
    """The verification of one archive, once the child that made it and reported `traced` is gone.

    `before` is the contract that an earlier check of the same archive led to, if this check goes on.
    """

    def __init__(self, examples: ExampleRuns, traced: Traced, before: Contract | None = None) -> None:
        self._before = before
        self._processes = examples.processes
        self._examples = examples
        self._traced = traced
        self._spec = examples.processes.spec
        self._tester = DifferentialTester(examples)
        self._record = CheckRecord(self._spec, traced.check)
        self._shown_orders: dict[str, list[KeyOrder]] = {}  # by method, those on which an answer was seen to depend

    def run(self, offered: Sequence[OfferedCase]) -> VerificationResult:
        """Ask everything first: what lies in the contract is known only when that is made. Raises TraceError."""
        observed = self._examples.observed_contract()
        if observed != self._traced.contract:
            raise ModelUnrepeatable(f"loaded again, {_describe_change(observed, self._traced.contract)}")
        for method in self._examples.examples:
            self._tester.add_example(method)
        with step("verify: inputs handed in and offered"):
            for call in self._examples.check_inputs:
                self._ask_check_input(call)
            for case in offered:
                self._ask_offered(case)
        budget = self._processes.budget(self._budget_s * (1.0 if self._is_deep else SHARE_OF_BUDGET))
        claims = self._verify_claims(observed, budget.share(self._share_of_methods))
        with step("verify: other ranks"):
            ranks = self._verify_ranks(observed, budget)
        self._ask_by_values()
        with step("verify: fresh inputs"):
            for method in self._examples.examples:
                self._ask_fresh(method)
                self._ask_other_draws(method)
        with step("verify: key orders"):
            key_orders = self._find_key_orders()
        contract = _contract(observed, claims, is_open=self._spec.check.contract == "open")
        contract = contract.with_key_orders(key_orders).with_devices(self._traced.devices)
        contract = contract.with_other_ranks(ranks).with_stochastic(self._tester.stochastic_methods)
        refuting = []
        if self._before is not None:
            refuting = [
                *self._list_refuting(self._before, contract),
                *self._list_refuted_clauses(self._before, contract, claims),
            ]
            contract = self._go_on_from(self._before, contract, refuting)
        if contract.without_fast_paths:
            self._record.add_finding(fast_paths_off())
        self._record_runs(contract)
        with step("verify: the example again"):
            for method in self._examples.examples:
                self._ask_again(method)
        if self._spec.check.gradients:
            for method in self._examples.examples:
                self._compare_gradients(method)
        check = self._record.check().with_refused_samples(self._refused_samples(contract))
        found = counterexamples.choose_counterexamples(self._tester.runs, self._examples.examples, check.findings)
        check = check.model_copy(update={"findings": counterexamples.link_findings(check.findings, found)})
        return VerificationResult(contract, check, self._golden_cases(contract), found, bool(refuting))

    def _list_refuting(self, before: Contract, now: Contract) -> list[str]:
        """Return the cases of wrong answers to what the contract before accepts, and the sizes that are claimed so."""
        cases = [
            run.case
            for run in (*self._tester.runs, *self._tester.unrecorded_differences)
            if (run.differs or _answers_where_eager_raises(run)) and self._takes(before, run)
        ]
        return [*dict.fromkeys([*cases, *map(format_sizes, list_refuted_sizes(before, now))])]

    def _list_refuted_clauses(
        self, before: Contract, now: Contract, claims: Mapping[str, VerifiedClaim]
    ) -> Iterator[str]:
        """Yield what else the contract before promises and was seen not to hold: no single call shows it."""
        for name, method in before.methods.items():
            for order in self._shown_orders[name]:
                if method.key_orders.get(order.path) != order.keys:
                    yield f"{order.subject} in another order"
            drew = (run for run in self._tester.runs if run.method == name and run.drew)
            if now.methods[name].stochastic and not method.stochastic and any(self._takes(before, run) for run in drew):
                yield f"{name} draws random numbers"
            rows = claims[name].dependent_rows if name in claims else None
            if rows is not None and _joins(method.batch, self._traced.claims[name].batch, rows):
                yield f"{rows} rows in one call"

    def _go_on_from(self, before: Contract, now: Contract, refuting: Sequence[str]) -> Contract:
        """Return the contract that both checks lead to, and record a finding if the one before falls, or stays."""
        if refuting:
            self._record.append_finding(contract_refuted(refuting))
            return now
        widened = widen(before, now)
        if not accepts_more(widened, before):
            self._record.append_finding(contract_kept(could_be_wider=accepts_more(now, before)))
        return widened

    def _refused_samples(self, contract: Contract) -> dict[tuple[str, str], str]:
        """Return by method and case why the contract refuses samples. Each bucket accepts its own sizes alone."""
        samples = [] if self._spec.buckets else [one for one in self._examples.check_inputs if is_sample(one.case)]
        is_open = self._spec.check.contract == "open"
        reasons = {
            (one.method, one.case): contract.method(one.method).why_refused(one.inputs, is_open=is_open)
            for one in samples
        }
        return {place: reason for place, reason in reasons.items() if reason is not None}

    def _ask_check_input(self, call: BoundCall) -> None:
        example = self._examples.examples[call.method]
        if (baked := compare_baked_arguments(example.arguments, call.arguments)) is not None:
            comparisons = FormComparisons(ComparisonResult(None, baked))
            self._tester.add(DifferentialRun(call, call.case, call.specs, {}, comparisons, []))
            return
        self._tester.ask(call, call.case, call.inputs, keep=True)

    def _ask_offered(self, case: OfferedCase) -> None:
        example = self._examples.examples.get(case.method)
        if example is None or _signature(case.inputs) != _signature(example.inputs):
            raise malformed_message("it offered inputs that the contract does not take")
        self._tester.ask(example, case.name, case.inputs, keep=True)

    def _verify_claims(self, observed: Contract, budget: Budget) -> dict[str, VerifiedClaim]:
        """Return what is left of the claims, by methods."""
        claims = self._traced.claims
        if self._spec.check.probes == "off":
            return {}
        if not claims.keys() <= observed.methods.keys():
            raise malformed_message("it claims something of a method that there is not")
        verified = {}
        for place, (method, claim) in enumerate(claims.items()):
            share = budget.share(1 / (len(claims) - place))
            call = self._examples.examples[method]
            contract = _apply_claim(observed.methods[method], claim)
            verified[method] = verify_claim(self._tester, call, contract, claim, share, deep=self._is_deep)
            for finding in verified[method].findings:
                self._record.add_finding(finding)
        return verified

    def _verify_ranks(self, observed: Contract, budget: Budget) -> dict[str, list[OtherRanks]]:
        """Return by method the other ranks of inputs for which the artifact is right, of those that are claimed."""
        claimed = self._traced.other_ranks
        if self._spec.check.probes == "off":
            return {}
        if not claimed.keys() <= observed.methods.keys():
            raise malformed_message("it claims other ranks of a method that there is not")
        found: dict[str, list[OtherRanks]] = {}
        left = sum(map(len, claimed.values()))
        for method, claims in claimed.items():
            own = observed.methods[method]
            verifier = RankVerifier(self._tester, self._examples, own, method, deep=self._is_deep)
            for claim in claims:
                share = budget.share(1 / left)
                left -= 1
                verified = verifier.refuse(claim, _BUCKETS) if self._spec.buckets else verifier.verify(claim, share)
                for finding in verified.findings:
                    self._record.add_finding(finding)
                if verified.contract is not None:
                    found.setdefault(method, []).append(verified.contract)
        return found

    @property
    def _is_deep(self) -> bool:
        return self._spec.check.probes == "deep"

    @property
    def _budget_s(self) -> float:
        """The check's budget in seconds, by how long the model took in the process that is asked here."""
        call_s = sum(answer.seconds for answer in self._examples.answers.values())
        return budget_seconds(self._spec.check, call_s, self._processes.budget_most_s)

    @property
    def _share_of_methods(self) -> float:
        """The part of the budget for the ranks of the examples: other ranks take as much as a method."""
        methods, ranks = len(self._traced.claims), sum(map(len, self._traced.other_ranks.values()))
        return methods / max(1, methods + ranks)

    def _ask_by_values(self) -> None:
        """Ask cases that differ at other sizes at the example's too: they differ there if the values are the cause."""
        differing = [run for run in self._tester.runs if run.differs and run.diverging is not None]
        asked = 0
        for run in differing:
            example = self._examples.examples[run.method]
            shapes = {spec.name: spec.shape for spec in example.specs}
            alike = run.nests_as(example) and _signature(run.inputs) == _signature(example.inputs)
            if asked == VALUES_ASKED or not alike or run.shapes == shapes:
                continue
            assert run.diverging is not None  # as it was chosen
            asked += 1
            case = f"{run.case}, its values at the example's sizes"
            self._tester.ask(example, case, random_inputs.tile(run.diverging.inputs, shapes))

    def _ask_fresh(self, method: str) -> None:
        compared, refusals = ask_fresh(self._tester, self._examples.examples[method])
        if not compared:
            self._record.append_finding(
                coverage.fresh_inputs_refused(method, refusals[-1]) if refusals else coverage.fresh_inputs_none(method)
            )

    def _ask_other_draws(self, method: str) -> None:
        """Ask the example under seeds that are drawn here, if random numbers are drawn for it."""
        if self._examples.answers[method].drew or method in self._tester.stochastic_methods:
            for number in range(1, DRAWS + 1):
                example = self._examples.examples[method]
                self._tester.ask(example, name_draw(EXAMPLE, number), example.inputs, seed=draw_seed())

    def _find_key_orders(self) -> dict[str, list[KeyOrder]]:
        """Return the orders of keys that the contract fixes, by method, and record a finding for each."""
        budget = self._processes.budget(self._budget_s * ORDERS_SHARE_OF_BUDGET)
        found = {}
        for method in self._examples.examples:
            fixed = verify_key_orders(self._examples, method, self._tester.limit_s(method), budget)
            for one in fixed:
                self._record.append_finding(coverage.dict_order_fixed(method, one.order, one.reason))
            found[method] = [one.order for one in fixed]
            self._shown_orders[method] = [one.order for one in fixed if one.is_shown]
        return found

    def _record_runs(self, contract: Contract) -> None:
        """Record what each run means, by whether the contract takes its inputs."""
        for run in self._tester.runs:
            in_contract = self._takes(contract, run)
            if run.comparisons is not None:
                self._record.add_run(run, run.comparisons, in_contract=in_contract)
            elif run.refusal is not None and in_contract and _answers_where_eager_raises(run):
                self._record.add_finding(differences.answers_where_eager_raises(run.method, run.case, run.refusal))
            if run.refusal is not None and run.call.case != EXAMPLE:
                self._record.add_finding(coverage.check_input_refused(run.case, run.refusal))

    def _takes(self, contract: Contract, run: DifferentialRun) -> bool:
        method = contract.methods[run.method].at_ranks(run.inputs)
        if not run.nests_as(self._examples.examples[run.method]) or not method.takes(run.inputs):
            return False
        return all(_lie_within(spec.values, run.ranges.get(spec.name)) for spec in method.inputs)

    def _ask_again(self, method: str) -> None:
        """Ask the example again under the same seed: both must answer the same, whatever was asked since."""
        call, first = self._examples.examples[method], self._examples.answers[method]
        self._processes.eager.ask(call, call.inputs, seed=self._spec.options.call_seed, within_s=None)
        # In the end the artifact has been called so often that the specialised code has answered.
        times = max(1, golden.CALLS_TO_SPECIALISE - self._record.served_comparisons(method))
        answers = [self._ask_artifact(call) for _ in range(times)]
        again = self._processes.eager.answer()
        ask_float64 = self._processes.float64_of(call, call.inputs, first)
        comparisons = [self._processes.compare(first, one, ask_float64) for one in answers]
        example = next(run for run in self._tester.runs if run.call is call)
        self._record.add_run(example, _first_difference(comparisons), f"{EXAMPLE}, again", in_contract=True)
        if isinstance(again, Failure):
            difference = Difference("output", f"in the end it raises: {again.detail}")
            self._record.add_finding(repeatability.hidden_state(method, difference))
            return
        changed = compare(first.answer, again.answer, self._spec.check.tolerance, _TWO_CALLS).difference
        if changed is not None:
            self._record.add_finding(repeatability.hidden_state(method, changed))
        if first.drew or again.drew:
            self._find_random_answers(method, first)

    def _find_random_answers(self, method: str, first: EagerAnswer) -> None:
        """Record a finding if the eager model answers the example differently with other random numbers."""
        call = self._examples.examples[method]
        for _ in range(DRAWS):
            self._processes.eager.ask(call, call.inputs, seed=draw_seed(), within_s=None)
            again = self._processes.eager.answer()
            if isinstance(again, Failure):
                return
            changed = compare(first.answer, again.answer, 0.0, _TWO_CALLS).difference
            if changed is not None:
                in_python = first.drew_in_python or again.drew_in_python
                unlike = repeatability.nondeterministic if in_python else repeatability.stochastic
                self._record.add_finding(unlike(method, changed))
                return

    def _ask_artifact(self, call: BoundCall) -> list[Answer | str]:
        """Return the answer of each form of the artifact to the call, under the seed of the request."""
        self._processes.ask_artifact(call, call.inputs, seed=self._spec.options.call_seed)
        return self._processes.artifact_answers()

    def _compare_gradients(self, method: str) -> None:
        processes, record = self._processes, self._record
        example, first = self._examples.examples[method], self._examples.answers[method]
        assert processes.as_traced is not None  # as the request asks
        if first.drew_in_python:
            reason = "eager draws random numbers in Python or NumPy"
            record.append_finding(differences.gradients_not_compared(method, reason))
            return
        tolerance, limit_s = self._spec.check.tolerance, self._tester.limit_s(method)
        compared = gradients.compare_gradients(example, processes.eager, processes.as_traced, tolerance, limit_s)
        for case, result in compared.cases:
            record.add_comparison(method, f"{case}, gradients", result, in_contract=True)
            if result.difference is not None:
                record.add_finding(differences.gradients_differ(method, case, result.difference))
        if compared.left_out is not None:
            record.append_finding(differences.gradients_not_compared(method, compared.left_out))

    def _golden_cases(self, contract: Contract) -> list[golden.GoldenCase]:
        """Return the examples, and some runs that the contract takes and on which both models agree."""
        examples = self._examples
        cases = [
            make_golden_case(method, call.inputs, examples.answers[method], self._spec.options.call_seed)
            for method, call in examples.examples.items()
        ]
        left_bytes = GOLDEN_BYTES
        taken = [run for run in self._tester.runs if self._takes(contract, run)]
        # `tracehouse verify` calls each combination of ranks, as far as a case shows it.
        taken.sort(key=lambda run: run.shapes not in _examples_of_ranks(contract.methods[run.method]))
        for case in self._tester.golden_cases(taken):
            if len(cases) < len(examples.examples) + GOLDEN_CASES and case.byte_size <= left_bytes:
                cases.append(case)
                left_bytes -= case.byte_size
        return cases


def _apply_claim(observed: MethodContract, claim: MethodClaim) -> MethodContract:
    """Return the contract that the claim would make. Raises ModelCrashed where it is not of this example."""
    try:
        return observed.with_claim(claim)
    except ValueError as error:
        raise malformed_message(f"it claims what its example is not: {text_of(error)}") from error


def _contract(observed: Contract, verified: Mapping[str, VerifiedClaim], *, is_open: bool) -> Contract:
    claims = {method: one.claim for method, one in verified.items()}
    answers = {method: one.answers for method, one in verified.items()}
    widened = observed.model_copy(update={"open": is_open}).with_claims(claims, answers)
    return widened.with_called({method: one.called for method, one in verified.items()})


def _joins(batch: Batch | None, claimed: Batch | None, rows: int) -> bool:
    """Whether the batch lets as many rows be answered together as are claimed of the same inputs."""
    return batch is not None and claimed is not None and batch.inputs == claimed.inputs and rows <= batch.up_to


def _answers_where_eager_raises(run: DifferentialRun) -> bool:
    return run.refusal is not None and run.artifact_answered and differences.model_raised(run.refusal)


def _examples_of_ranks(method: MethodContract) -> list[dict[str, tuple[int, ...]]]:
    return [{spec.name: spec.example for spec in other.inputs} for other in method.other_ranks]


def _signature(inputs: Iterable[Tensor | TensorSpec]) -> list[tuple[str, Datatype, int]]:
    """Return the inputs' names, datatypes and ranks, which no size changes."""
    return [(tensor.name, tensor.datatype, len(tensor.shape)) for tensor in inputs]


def _lie_within(values: ValueRange | None, seen: tuple[int, int] | None) -> bool:
    return values is None or seen is None or values.contains(*seen)


def _first_difference(comparisons: Sequence[FormComparisons]) -> FormComparisons:
    return next((one for one in comparisons if not one.agrees), comparisons[0])


def _describe_change(actual: Contract, claimed: Contract) -> str:
    """Return how the model that was loaded again differs from the model that was traced."""
    if actual.without_fast_paths != claimed.without_fast_paths:
        return "it chooses its path by a padding mask at one time, and not at another"
    for method, now in actual.methods.items():
        was = claimed.methods[method]
        for what in ("arguments", "inputs", "outputs", "returns"):
            if getattr(now, what) != getattr(was, what):
                return f"{method} has other {what} than when it was traced"
    return "it has other methods"
