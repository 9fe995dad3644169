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

from service.domain.contract import BakedLeaf, Contract, MethodContract, Structure, items_of
from service.domain.errors import Failure, ModelUnrepeatable
from service.domain.tensor import Tensor
from service.domain.trace_check import Comparison, Finding, TraceCheck, Verdict, verdict_of
from service.domain.trace_request import TraceSpec
from service.sandbox.bounds import cut_check
from service.sandbox.messages import EXAMPLE, Traced
from workers import golden
from workers.closeness import Answer, Compared, Difference, compare
from workers.tracing import doubts, fresh
from workers.tracing.ends import malformed
from workers.tracing.sides import ArtifactSide, BoundCall, EagerAnswer, EagerSide

# torch's profiling executor records the first call, and specialises on the second and third: the example is asked
# first, and once more when the artifact has been called so often.
CALLS_TO_SPECIALISE = 3
# At least and at most so many rounds of fresh inputs are compared on, the further ones within the time; and of so many
# the eager model may refuse some.
ROUNDS_LEAST, ROUNDS_MOST, ROUNDS_DRAWN = 2, 6, 12
ROUNDS_S = 0.1
# Eager is stopped where a call takes so long, or so many times the example's time.
CALL_S = 1.0
CALL_TIMES_EXAMPLE = 20
# Beside the examples, so many golden cases and no more bytes of them are kept.
GOLDEN_CASES = 4
GOLDEN_BYTES = 16 * 2**20

_WORSE = [Verdict.VERIFIED, Verdict.RESTRICTED, Verdict.REJECTED]


@dataclass(frozen=True)
class OfferedCase:
    """Inputs that the tracing child tried, and offers."""

    name: str
    method: str
    inputs: list[Tensor]


@dataclass(frozen=True)
class Verified:
    contract: Contract
    check: TraceCheck
    golden: list[golden.Case]


class Verification:
    """Of one archive, whose two sides were started: `prepare` may be called beside what still runs, and then `run`."""

    def __init__(self, spec: TraceSpec, eager: EagerSide, artifact: ArtifactSide) -> None:
        self._spec = spec
        self._seed = spec.options.seed
        self._tolerance = spec.check.check_tolerance
        self._eager = eager
        self._artifact = artifact
        self._comparisons: list[Comparison] = []
        self._findings: list[Finding] = []
        self._golden: list[golden.Case] = []

    def prepare(self) -> None:
        """Hear what both sides give on the examples: these are no secret, so nobody need be gone yet."""
        self._hear()
        self._artifact.wait()
        self._on_examples = {method: self._compared_example(method) for method in self._examples}

    def run(self, said: Traced, offered: Sequence[OfferedCase]) -> Verified:
        """After `prepare`, and after the child that said this is gone. Raises TraceError."""
        self._said = said
        contract = self._contract()
        if contract != said.contract:
            raise ModelUnrepeatable(f"loaded again, {_otherwise(contract, said.contract)}")
        for method, compared in self._on_examples.items():
            self._record(method, EXAMPLE, compared, in_contract=True)
            self._golden.append(_golden(method, self._examples[method].inputs, self._answers[method]))
        for given in self._check_inputs:
            self._compare_given(given)
        for case in offered:
            self._compare_offered(case)
        for method in self._examples:
            self._compare_fresh(method)
        for method in self._examples:
            self._ask_again(method)
        return Verified(contract, self._check(), self._golden)

    def _hear(self) -> None:
        calls, answers = self._eager.calls(self._spec)
        self._examples = {call.method: call for call in calls if call.case == EXAMPLE}
        self._check_inputs = [call for call in calls if call.case != EXAMPLE]
        self._answers: dict[str, EagerAnswer] = {}
        for method, answer in answers.items():
            if isinstance(answer, Failure):
                raise ModelUnrepeatable(f"loaded again, it refuses its example: {answer.detail}", method=method)
            self._answers[method] = answer

    def _contract(self) -> Contract:
        return Contract(
            methods={
                method: MethodContract(
                    arguments=call.arguments,
                    inputs=call.specs,
                    outputs=[tensor.spec for tensor in self._answers[method].answer.leaves.values()],
                    returns=self._answers[method].answer.returns,
                )
                for method, call in self._examples.items()
            }
        )

    def _compared_example(self, method: str) -> Compared:
        call = self._examples[method]
        self._artifact.ask(call, call.inputs)
        return self._compared(self._answers[method], self._artifact.answer())

    def _compare_given(self, given: BoundCall) -> None:
        example = self._examples[given.method]
        if (baked := _baked_otherwise(example, given)) is not None:
            self._record(given.method, given.case, Compared(None, baked), in_contract=False)
            return
        in_contract = (given.arguments, given.specs) == (example.arguments, example.specs)
        refusal = self._compare(given, given.case, given.inputs, in_contract=in_contract, keep=in_contract)
        if refusal is not None:
            self._doubt(doubts.refuses_check_input(given.case, refusal))

    def _compare_offered(self, case: OfferedCase) -> None:
        example = self._examples.get(case.method)
        if example is None or [tensor.spec for tensor in case.inputs] != example.specs:
            raise malformed("it offered inputs that the contract does not take")
        self._compare(example, case.name, case.inputs, in_contract=True, keep=True)

    def _compare_fresh(self, method: str) -> None:
        example = self._examples[method]
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
        call, first = self._examples[method], self._answers[method]
        self._eager.ask(call, call.inputs, seed=self._seed + 1, within_s=None)
        asked = sum(one.method == method for one in self._comparisons)
        compared = [self._compared_example(method) for _ in range(max(1, CALLS_TO_SPECIALISE - asked))]
        self._record(method, f"{EXAMPLE}, again", _first_that_differs(compared), in_contract=True)
        again = self._eager.answer()
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
        seconds = self._answers[call.method].seconds
        self._eager.ask(call, inputs, seed=self._seed, within_s=max(CALL_S, CALL_TIMES_EXAMPLE * seconds))
        self._artifact.ask(call, inputs)
        eager, artifact = self._eager.answer(), self._artifact.answer()
        if isinstance(eager, Failure):
            return eager
        compared = self._compared(eager, artifact)
        self._record(call.method, case, compared, in_contract=in_contract)
        if keep and compared.agrees and not eager.drew:
            self._keep_golden(_golden(call.method, inputs, eager))
        return None

    def _compared(self, eager: EagerAnswer, artifact: Answer | str) -> Compared:
        if isinstance(artifact, str):
            return Compared(None, Difference("output", artifact))
        return compare(eager.answer, artifact, self._tolerance)

    def _record(self, method: str, case: str, compared: Compared, *, in_contract: bool) -> None:
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
        if difference is not None:
            self._doubt(doubts.differs(method, case, difference, self._said.check.findings, in_contract=in_contract))

    def _doubt(self, finding: Finding) -> None:
        """One of each kind is enough of a method, and the tracing child's knows more of the lines."""
        known = [*self._said.check.findings, *self._findings]
        if not any(doubts.says_the_same(other, finding) for other in known):
            self._findings.append(finding)

    def _keep_golden(self, case: golden.Case) -> None:
        extra = self._golden[len(self._examples) :]
        size = case.byte_size + sum(kept.byte_size for kept in extra)
        if len(extra) < GOLDEN_CASES and size <= GOLDEN_BYTES:
            self._golden.append(case)

    def _check(self) -> TraceCheck:
        """The tracing child's part in it can make the verdict worse, and nothing better."""
        said = self._said.check
        found = [*said.findings, *self._findings]
        ours = verdict_of(self._comparisons, found)
        return cut_check(
            TraceCheck(
                verdict=max(ours, said.verdict, key=_WORSE.index),
                tolerance=self._tolerance,
                comparisons=self._comparisons,
                findings=found,
                torch=said.torch,
            )
        )


def _first_that_differs(compared: Sequence[Compared]) -> Compared:
    return next((one for one in compared if not one.agrees), compared[0])


def _golden(method: str, inputs: Sequence[Tensor], eager: EagerAnswer) -> golden.Case:
    return golden.Case(method, inputs, list(eager.answer.leaves.values()))


def _baked_otherwise(example: BoundCall, call: BoundCall) -> Difference | None:
    """Where a call gives another value than the one that the trace baked in."""
    baked, given = _constants(example), _constants(call)
    for name in [*baked, *given]:
        was, is_ = baked.get(name, _ABSENT), given.get(name, _ABSENT)
        if was != is_:
            return Difference(name, f"the trace was made with {was}, and this call has {is_}")
    return None


_ABSENT = "nothing"


def _constants(call: BoundCall) -> dict[str, str]:
    found: dict[str, str] = {}
    for argument in call.arguments:
        _find_constants(argument.structure, argument.name, found)
    return found


def _find_constants(structure: Structure, name: str, found: dict[str, str]) -> None:
    if isinstance(structure, BakedLeaf):
        found[name] = repr(structure.baked)
    for key, item in items_of(structure):
        _find_constants(item, f"{name}.{key}", found)


def _otherwise(actual: Contract, claimed: Contract) -> str:
    """Where the model that was loaded again is another one than the model that was traced."""
    for method, now in actual.methods.items():
        was = claimed.methods[method]
        for what in ("arguments", "inputs", "outputs", "returns"):
            if getattr(now, what) != getattr(was, what):
                return f"{method} has other {what} than when it was traced"
    return "it has other methods"
