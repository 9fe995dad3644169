"""Rank claims: what the tracing child says of inputs of other ranks than the example's, verified here.

The check input or sample that has these ranks stands in for the example: both models are asked on it, on inputs of its
shapes that are drawn here, and at the claimed sizes. If they differ once in these ranks, the contract refuses them.
"""

from dataclasses import dataclass, field

from service.protocol.bounds import text_of
from tracehouse.contract.contract import MethodClaim, MethodContract, OtherRanks, RankClaim
from tracehouse.contract.input_spec import InputSpec, ranks_of
from tracehouse.contract.key_orders import key_orders_of
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.structure import same_arguments
from tracehouse.differential.bound_call import BoundCall
from tracehouse.differential.budget import Budget
from tracehouse.differential.differential_run import DifferentialRun
from tracehouse.findings.coverage import RANKS_DRAW, RANKS_TAKE_DICTS, ranks_not_covered
from tracehouse.findings.finding import Finding
from tracehouse.tensors.tensor import Datatype
from workers.processes.exits import malformed_message
from workers.verification.claims import verify_claim
from workers.verification.differential_runs import DifferentialTester
from workers.verification.examples import ExampleRuns
from workers.verification.fresh_rounds import ask_fresh

_REFUSES_DRAWN = "the model refuses all inputs that were drawn in these ranks"


@dataclass(frozen=True)
class VerifiedRanks:
    """What the artifact is right for in other ranks; None if nothing is known. The findings say why."""

    contract: OtherRanks | None
    findings: list[Finding] = field(default_factory=list)


class RankVerifier:
    """Verifies the rank claims of one method. `observed` is its contract as the example shows it."""

    def __init__(
        self, tester: DifferentialTester, examples: ExampleRuns, observed: MethodContract, method: str, *, deep: bool
    ) -> None:
        self._tester = tester
        self._examples = examples
        self._observed = observed
        self._method = method
        self._deep = deep
        self._seen = [ranks_of(examples.examples[method].inputs)]

    def refuse(self, claimed: RankClaim, why: str) -> VerifiedRanks:
        """Return that nothing is left of the claim, for this reason. Raises what `verify` raises."""
        return self._refuse(self._find_call(claimed.case), why)

    def verify(self, claimed: RankClaim, budget: Budget) -> VerifiedRanks:
        """Return what is left of one claim. Raises ModelCrashed if it is about no input of other ranks."""
        call = self._find_call(claimed.case)
        shown = next(run for run in self._tester.runs if run.call is call)
        if not shown.agrees:
            return self._refuse(call, f"the artifact and the model do not agree on {call.case}")
        contract = self._contract(shown, claimed.claim)
        compared, refusals = ask_fresh(self._tester, call)
        verified = verify_claim(self._tester, call, contract, claimed.claim, budget, deep=self._deep)
        if refusals and not compared:
            return self._refuse(call, _REFUSES_DRAWN)
        if (why := self._why_not_right(call)) is not None:
            return self._refuse(call, why)
        widened = self._as_shown(shown).with_claim(verified.claim, verified.answers)
        return VerifiedRanks(OtherRanks.of(widened.with_called(verified.called)), verified.findings)

    def _find_call(self, case: str) -> BoundCall:
        """Return the check input or sample of this name. Raises ModelCrashed if the example has its ranks, say."""
        example = self._examples.examples[self._method]
        found = [one for one in self._examples.check_inputs if (one.case, one.method) == (case, self._method)]
        if not found or not _nests_alike(example, found[0]) or (ranks := ranks_of(found[0].inputs)) in self._seen:
            raise malformed_message("it claims other ranks of what has none")
        self._seen.append(ranks)
        return found[0]

    def _as_shown(self, shown: DifferentialRun) -> MethodContract:
        """Return the method's contract for the shapes of this run alone, whose outputs nest as the example's."""
        inputs = [InputSpec.from_example(spec) for spec in shown.inputs]
        outputs = [OutputSpec.from_example(spec) for spec in shown.outputs]
        return MethodContract.model_validate({**dict(self._observed), "inputs": inputs, "outputs": outputs})

    def _contract(self, shown: DifferentialRun, claim: MethodClaim) -> MethodContract:
        try:
            return self._as_shown(shown).with_claim(claim)
        except ValueError as error:
            raise malformed_message(f"it claims what {shown.case} is not: {text_of(error)}") from error

    def _why_not_right(self, call: BoundCall) -> str | None:
        """Return what speaks against the artifact in these ranks; None if nothing does."""
        of_method = [run for run in self._tester.runs if run.method == self._method and run.nests_as(call)]
        alike = [run for run in of_method if ranks_of(run.inputs) == ranks_of(call.inputs)]
        if any(run.drew for run in alike) or self._method in self._tester.stochastic_methods:
            return RANKS_DRAW
        if [*key_orders_of(call.arguments, call.keywords)]:
            return RANKS_TAKE_DICTS
        differing = next((run for run in alike if run.differs), None)
        return None if differing is None else f"the artifact and the model differ on {differing.case}"

    def _refuse(self, call: BoundCall, why: str) -> VerifiedRanks:
        shapes = {spec.name: spec.shape for spec in call.specs}
        return VerifiedRanks(None, [ranks_not_covered(self._method, call.case, shapes, why)])


def _nests_alike(example: BoundCall, call: BoundCall) -> bool:
    return same_arguments(example.arguments, call.arguments) and _datatypes(example) == _datatypes(call)


def _datatypes(call: BoundCall) -> list[tuple[str, Datatype]]:
    return [(tensor.name, tensor.datatype) for tensor in call.inputs]
