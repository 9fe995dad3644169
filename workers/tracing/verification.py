"""Verification: the verdict, computed from what the eager model and the artifact give apart from one another.

The process that traced ran submitted code, which can make it say anything. So none of what it said counts in the
artifact's favour: it is gone, and the archive is fixed by its hash, before anything is drawn here to ask on; the two
that are asked share nothing but the inputs; and what they give is compared here, by its bytes.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from service.domain.contract import Contract, MethodContract, same_arguments
from service.domain.errors import Failure, ModelUnrepeatable
from service.domain.tensor import Tensor
from service.domain.trace_check import Comparison, Finding, TraceCheck, verdict_of, worst
from service.domain.trace_request import TraceSpec
from service.sandbox.bounds import cut_check
from service.sandbox.messages import EXAMPLE, Traced
from workers import golden
from workers.closeness import SIDES, Answer, Compared, Difference, compare, given_otherwise
from workers.tracing import doubts, fresh, gradients
from workers.tracing.ends import malformed
from workers.tracing.sides import ArtifactSide, BoundCall, EagerAnswer, EagerSide
from workers.tracing.tracer import OfferedCase

# At least and at most so many rounds of fresh inputs are compared on, the further ones within the time; and of so many
# the eager model may refuse some.
ROUNDS_LEAST, ROUNDS_MOST, ROUNDS_DRAWN = 2, 6, 12
# Each round tells less than the one before it: a small model has them all in this time, and a request for a large one
# is to be made longer by the least of them alone.
ROUNDS_S = 0.1
# Drawn values can make a loop of the model's very long: eager is stopped where a call takes so long, or so many times
# the example's time. What takes milliseconds on its example is far off it after a second, on a busy machine too.
CALL_S = 1.0
CALL_TIMES_EXAMPLE = 20
# Beside the examples, so many golden cases and no more bytes of them are kept.
GOLDEN_CASES = 4
GOLDEN_BYTES = 16 * 2**20

_AS_TRACED = ", as traced"


@dataclass(frozen=True)
class Verified:
    contract: Contract
    check: TraceCheck
    golden: list[golden.Case]


@dataclass(frozen=True)
class Both:
    """What was found of the artifact as it is served and, where that is another form, as it was traced."""

    served: Compared
    as_traced: Compared | None = None

    @property
    def agrees(self) -> bool:
        return self.served.agrees and (self.as_traced is None or self.as_traced.agrees)


@dataclass(frozen=True)
class Sides:
    """The eager model and the artifact, each in a process that was started, and the request that they are of.

    `as_traced` is the artifact once more, where it is served in another form or gradients are compared.
    """

    spec: TraceSpec
    eager: EagerSide
    artifact: ArtifactSide
    as_traced: ArtifactSide | None = None

    def wait(self) -> None:
        """Until the artifact is loaded. Raises ArchiveUnusable: of the form that is served where that one alone is."""
        for side in (self.as_traced, self.artifact):
            if side is not None:
                side.wait()

    def ask_artifact(self, call: BoundCall, inputs: Sequence[Tensor]) -> None:
        for side in self._asked():
            side.ask(call, inputs)

    def artifact_answers(self) -> list[Answer | str]:
        """In the order of `Both`."""
        return [side.answer() for side in self._asked()]

    def compared(self, eager: EagerAnswer, answers: Sequence[Answer | str]) -> Both:
        return Both(*(self._compared(eager, side, one) for side, one in zip(self._asked(), answers, strict=True)))

    def compared_example(self, call: BoundCall, eager: EagerAnswer) -> Both:
        """What the artifact gives on it now, against what eager gave."""
        self.ask_artifact(call, call.inputs)
        return self.compared(eager, self.artifact_answers())

    def _asked(self) -> list[ArtifactSide]:
        as_traced = self.as_traced if self.spec.options.served_form is not None else None
        return [side for side in (self.artifact, as_traced) if side is not None]

    def _compared(self, eager: EagerAnswer, side: ArtifactSide, answer: Answer | str) -> Compared:
        if isinstance(answer, str):
            return Compared(None, Difference("output", answer))
        return compare(eager.answer, answer, self.spec.check.check_tolerance, (SIDES[0], side.name))


@dataclass(frozen=True)
class Prepared:
    """The request's calls, and what both sides give on the examples among them, by their methods."""

    sides: Sides
    examples: dict[str, BoundCall]
    check_inputs: list[BoundCall]
    answers: dict[str, EagerAnswer]
    compared: dict[str, Both]

    def contract(self) -> Contract:
        return Contract(
            methods={
                method: MethodContract(
                    arguments=call.arguments,
                    inputs=call.specs,
                    outputs=[tensor.spec for tensor in self.answers[method].answer.leaves.values()],
                    returns=self.answers[method].answer.returns,
                )
                for method, call in self.examples.items()
            }
        )


def prepare(sides: Sides) -> Prepared:
    """Hear both sides on the examples: these are no secret, so nobody need be gone yet. Raises TraceError."""
    calls, answered = sides.eager.calls(sides.spec)
    examples = {call.method: call for call in calls if call.case == EXAMPLE}
    check_inputs = [call for call in calls if call.case != EXAMPLE]
    answers: dict[str, EagerAnswer] = {}
    for method, answer in answered.items():
        if isinstance(answer, Failure):
            raise ModelUnrepeatable(f"loaded again, it refuses its example: {answer.detail}", method=method)
        answers[method] = answer
    sides.wait()
    compared = {method: sides.compared_example(call, answers[method]) for method, call in examples.items()}
    return Prepared(sides, examples, check_inputs, answers, compared)


class Verification:
    """Of one archive, when the child that made it and said this of it is gone."""

    def __init__(self, prepared: Prepared, said: Traced) -> None:
        self._sides = prepared.sides
        self._prepared = prepared
        self._said = said
        self._seed = prepared.sides.spec.options.seed
        self._tolerance = prepared.sides.spec.check.check_tolerance
        self._comparisons: list[Comparison] = []
        self._findings: list[Finding] = []
        self._golden: list[golden.Case] = []

    def run(self, offered: Sequence[OfferedCase]) -> Verified:
        """Raises TraceError."""
        prepared = self._prepared
        contract = prepared.contract()
        if contract != self._said.contract:
            raise ModelUnrepeatable(f"loaded again, {_otherwise(contract, self._said.contract)}")
        for method, compared in prepared.compared.items():
            self._record(method, EXAMPLE, compared, in_contract=True)
            self._golden.append(_golden(method, prepared.examples[method].inputs, prepared.answers[method]))
        for given in prepared.check_inputs:
            self._compare_given(given)
        for case in offered:
            self._compare_offered(case)
        for method in prepared.examples:
            self._compare_fresh(method)
        for method in prepared.examples:
            self._ask_again(method)
        if self._sides.spec.check.gradients:
            for method in prepared.examples:
                self._compare_gradients(method)
        return Verified(contract, self._check(), self._golden)

    def _compare_given(self, given: BoundCall) -> None:
        example = self._prepared.examples[given.method]
        if (baked := given_otherwise(example.arguments, given.arguments)) is not None:
            self._record(given.method, given.case, Both(Compared(None, baked)), in_contract=False)
            return
        in_contract = same_arguments(example.arguments, given.arguments) and given.specs == example.specs
        refusal = self._compare(given, given.case, given.inputs, in_contract=in_contract, keep=in_contract)
        if refusal is not None:
            self._doubt(doubts.refuses_check_input(given.case, refusal))

    def _compare_offered(self, case: OfferedCase) -> None:
        example = self._prepared.examples.get(case.method)
        if example is None or [tensor.spec for tensor in case.inputs] != example.specs:
            raise malformed("it offered inputs that the contract does not take")
        self._compare(example, case.name, case.inputs, in_contract=True, keep=True)

    def _compare_fresh(self, method: str) -> None:
        example = self._prepared.examples[method]
        rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        until = time.monotonic() + ROUNDS_S
        compared = 0
        refused: list[Failure] = []
        for inputs in islice(fresh.rounds(example.inputs, rng), ROUNDS_DRAWN):
            if compared == ROUNDS_MOST or (compared >= ROUNDS_LEAST and time.monotonic() > until):
                break
            refusal = self._compare(example, f"fresh {compared + 1}", inputs, in_contract=True, keep=False)
            if refusal is None:
                compared += 1
            else:
                refused.append(refusal)
        if not compared:
            self._findings.append(doubts.refuses_fresh(method, refused[-1]) if refused else doubts.no_fresh(method))

    def _ask_again(self, method: str) -> None:
        """Both must answer the same, whatever they were asked meanwhile, and whatever eager draws at random."""
        call, first = self._prepared.examples[method], self._prepared.answers[method]
        self._sides.eager.ask(call, call.inputs, seed=self._seed + 1, within_s=None)
        asked = sum(one.method == method and not one.case.endswith(_AS_TRACED) for one in self._comparisons)
        # In the end the artifact has been called so often that it is the specialised one which was asked.
        times = max(1, golden.CALLS_TO_SPECIALISE - asked)
        compared = [self._sides.compared_example(call, first) for _ in range(times)]
        self._record(method, f"{EXAMPLE}, again", _first_that_differs(compared), in_contract=True)
        again = self._sides.eager.answer()
        if isinstance(again, Failure):
            difference = Difference("output", f"in the end it raises: {again.detail}")
            self._doubt(doubts.answers_otherwise(method, difference, drew=False))
            return
        drew = first.drew or again.drew
        sides = ("the first call", "the last one")
        changed = compare(first.answer, again.answer, 0.0 if drew else self._tolerance, sides).difference
        if changed is not None:
            self._doubt(doubts.answers_otherwise(method, changed, drew=drew))

    def _compare(
        self, call: BoundCall, case: str, inputs: Sequence[Tensor], *, in_contract: bool, keep: bool
    ) -> Failure | None:
        """Ask both at once, as in that call; the failure with which eager refuses, which then is no comparison."""
        seconds = self._prepared.answers[call.method].seconds
        self._sides.eager.ask(call, inputs, seed=self._seed, within_s=max(CALL_S, CALL_TIMES_EXAMPLE * seconds))
        self._sides.ask_artifact(call, inputs)
        eager, answers = self._sides.eager.answer(), self._sides.artifact_answers()
        if isinstance(eager, Failure):
            if in_contract and doubts.raised(eager) and isinstance(answers[0], Answer):
                self._doubt(doubts.answers_where_eager_raises(call.method, case, eager))
            return eager
        compared = self._sides.compared(eager, answers)
        self._record(call.method, case, compared, in_contract=in_contract)
        if keep and compared.agrees and not eager.drew:
            self._keep_golden(_golden(call.method, inputs, eager))
        return None

    def _compare_gradients(self, method: str) -> None:
        sides, example, first = self._sides, self._prepared.examples[method], self._prepared.answers[method]
        assert sides.as_traced is not None  # as the request asks
        if first.drew:
            self._findings.append(doubts.gradients_not_compared(method, "eager draws random numbers"))
            return
        within_s = max(CALL_S, CALL_TIMES_EXAMPLE * first.seconds)
        found = gradients.compare_on(example, sides.eager, sides.as_traced, self._tolerance, within_s)
        for case, compared in found.cases:
            self._list(method, f"{case}, gradients", compared, in_contract=True)
            if compared.difference is not None:
                self._doubt(doubts.gradients_differ(method, case, compared.difference))
        if found.left_out is not None:
            self._findings.append(doubts.gradients_not_compared(method, found.left_out))

    def _record(self, method: str, case: str, compared: Both, *, in_contract: bool) -> None:
        self._list(method, case, compared.served, in_contract=in_contract)
        known = self._said.check.findings
        as_traced = compared.as_traced or compared.served
        if compared.as_traced is not None:
            self._list(method, f"{case}{_AS_TRACED}", compared.as_traced, in_contract=in_contract)
        if as_traced.difference is not None:
            self._doubt(doubts.differs(method, case, as_traced.difference, known, in_contract=in_contract))
        elif compared.served.difference is not None:
            form = self._sides.spec.options.served_form
            assert form is not None  # or it would be the same that differs
            self._doubt(doubts.served_form_differs(method, case, compared.served.difference, form))

    def _list(self, method: str, case: str, compared: Compared, *, in_contract: bool) -> None:
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
        if not any(doubts.says_the_same(other, finding) for other in known):
            self._findings.append(finding)

    def _keep_golden(self, case: golden.Case) -> None:
        extra = self._golden[len(self._prepared.examples) :]
        size = case.byte_size + sum(kept.byte_size for kept in extra)
        if len(extra) < GOLDEN_CASES and size <= GOLDEN_BYTES:
            self._golden.append(case)

    def _check(self) -> TraceCheck:
        """The tracing child's part in it can make the verdict worse, and nothing better."""
        said = self._said.check
        findings = [*self._findings, *said.findings]  # of too many, the last are cut
        found = [doubts.advised(one, findings, self._sides.spec) for one in findings]
        ours = verdict_of(self._comparisons, found)
        return cut_check(
            TraceCheck(
                verdict=worst([ours, said.verdict]),
                tolerance=self._tolerance,
                comparisons=self._comparisons,
                findings=found,
                torch=said.torch,
            )
        )


def _first_that_differs(compared: Sequence[Both]) -> Both:
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
