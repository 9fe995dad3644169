"""Other ranks: whether the artifact is right for inputs whose tensors have other ranks than the example's.

A trace records the operators of one rank. So it is taken for another one only if a check input or sample has that
rank, and a trace of it has the same graph. Then the first such input is checked as the example is, by the same layers
on the same artifact; nothing of what holds for the example is assumed. A script is not traced again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracehouse.check import conclusions
from tracehouse.check.comparer import Comparer
from tracehouse.check.datatypes import with_datatypes
from tracehouse.check.determinism import Determinism
from tracehouse.check.evidence import Evidence
from tracehouse.check.graph_diff.canonical import find_divergences
from tracehouse.check.ledger import Ledger
from tracehouse.check.pipeline import Pipeline, RequestedSizes
from tracehouse.check.probe.probing import Probing
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.contract.contract import OTHER_RANKS_MAX, MethodClaim, OtherRanks
from tracehouse.contract.key_orders import key_orders_of
from tracehouse.contract.structure import same_arguments
from tracehouse.differential.budget import Budget
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager import observed_contract
from tracehouse.eager.call import Call, CheckCall
from tracehouse.errors import LimitExceeded, ModelRaised
from tracehouse.findings.coverage import RANKS_DRAW, RANKS_TAKE_DICTS, ranks_not_covered
from tracehouse.findings.finding import Finding
from tracehouse.findings.verdict import Verdict, verdict_of
from tracehouse.introspection import user_lines
from tracehouse.torchscript.torch_check import RecordedWarning
from tracehouse.torchscript.trace import TraceResult

_RETURNS_OTHERS = "what the model returns nests otherwise, or has other constants, than on the example"
_TWO_CALLS = ("the first call", "a later one")
_NOT_CHECKED = "the check of these ranks did not come to an end"
_TOO_MANY = f"at most {OTHER_RANKS_MAX} other ranks of a method are checked"


class _NotRight(Exception):
    """Nothing is claimed of inputs of these ranks, for this reason. `line` has the line at fault, if it is known."""

    def __init__(self, reason: str, line: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line or {}


@dataclass(frozen=True)
class CheckedRanks:
    """What was found out about inputs of the ranks that the check input or sample `case` has."""

    case: str
    claim: MethodClaim
    contract: OtherRanks


def group_by_ranks(example: Call, further: Sequence[CheckCall]) -> list[list[CheckCall]]:
    """Return the calls that differ from the example in the ranks of tensors, those of the same ranks together.

    Calls whose tensors have other datatypes, or whose other arguments differ, are left out.
    """
    groups: dict[tuple[int, ...], list[CheckCall]] = {}
    own = _ranks(example)
    for one in further:
        if one.call.method == example.method and _nests_alike(example, one.call) and _ranks(one.call) != own:
            groups.setdefault(_ranks(one.call), []).append(one)
    return [*groups.values()]


def _nests_alike(example: Call, call: Call) -> bool:
    arguments, others = (observed_contract.describe_arguments(one) for one in (example, call))
    datatypes, other = ({name: tensor.dtype for name, tensor in one.tensors.items()} for one in (example, call))
    return same_arguments(arguments, others) and datatypes == other


def _ranks(call: Call) -> tuple[int, ...]:
    return tuple(tensor.dim() for tensor in call.tensors.values())


@dataclass(frozen=True)
class RankCheck:
    """Checks inputs of other ranks than the example of `target`, with the artifact `traced`.

    `warned` is what the trace warned of. `agrees` says for each check input and sample that the model answers whether
    the artifact agrees. With `deep`, far more probes are tried.
    """

    target: Target
    traced: TraceResult
    warned: Sequence[RecordedWarning]
    agrees: Mapping[str, bool]
    deep: bool

    def run(self, groups: Sequence[Sequence[CheckCall]], budget: Budget) -> Iterator[CheckedRanks | Finding]:
        """Yield for each group what is known of its ranks, or a finding that says why nothing is."""
        accepted = [self.target.call]
        for place, group in enumerate(groups):
            calls = [one for one in group if one.name in self.agrees]
            if not calls:
                continue
            try:
                if place >= OTHER_RANKS_MAX:
                    raise _NotRight(_TOO_MANY)
                yield self._check(calls, accepted, budget.share(1 / (len(groups) - place)))
                accepted.append(calls[0].call)
            except (_NotRight, ModelRaised, LimitExceeded, TooSlow) as error:
                yield _not_covered(calls[0], error)

    def _check(self, calls: Sequence[CheckCall], accepted: Sequence[Call], budget: Budget) -> CheckedRanks:
        """Check the first call as an example is checked; the others are samples of its ranks. Raises _NotRight.

        `accepted` has a call of each combination of ranks that is accepted so far.
        """
        first, ledger = calls[0], Ledger()
        target = replace(self.target, call=first.call)
        self._require_candidates(calls)
        _require_same_graph(target)
        observed = target.eager.observe(target.call)
        comparer = Comparer(target.eager, self.traced, ledger, tolerance=target.tolerance, seed=target.eager.seed)
        determinism = Determinism(
            target.eager, comparer, {target.method: observed}, self.traced, ledger, target.tolerance
        )
        comparer.compare_example(target.call, observed.answers[0])
        determinism.check_example(target.call)
        for other in accepted:
            self._require_no_aftereffect(other, target.call)
        probing = Probing(
            target.call, observed.call_s, target.eager, comparer, determinism, ledger,
            searching=observed.reads_values or any(one.reads_value for one in self.warned),
            deep=self.deep, tolerance=target.tolerance, seed=target.seed,
        )  # fmt: skip
        samples = [one.call for one in calls[1:]]
        pipeline = Pipeline(target, RequestedSizes(), budget, probing.run, lambda _: None, samples)
        evidence = pipeline.run(self.warned)
        _require_right(ledger, evidence)
        return _claim(first, target, observed.answers[0].outputs, evidence, budget)

    def _require_candidates(self, calls: Sequence[CheckCall]) -> None:
        """Raise _NotRight if the artifact differs on one of the calls, or if orders of keys would have to be tried."""
        call = calls[0].call
        if differing := [one.name for one in calls if not self.agrees[one.name]]:
            raise _NotRight(f"the artifact and the model differ on {differing[0]}")
        if [*key_orders_of(observed_contract.describe_arguments(call), call.keywords)]:
            raise _NotRight(RANKS_TAKE_DICTS)

    def _require_no_aftereffect(self, one: Call, other: Call) -> None:
        """Raise _NotRight if the model answers one of the two calls otherwise after the other one."""
        eager = self.target.eager
        for earlier, later in ((one, other), (other, one)):
            fresh = eager.answer(later)
            eager.answer(earlier)
            after = eager.answer_again(later)
            found = eager.compare(later, fresh, after, self.target.tolerance, _TWO_CALLS).difference
            if found is not None:
                raise _NotRight(f"after a call of another rank, {found.leaf!r} differs: {found.what}")


def _require_same_graph(target: Target) -> None:
    """Raise _NotRight if a trace of the call has another graph than the artifact."""
    if target.retrace is None:
        return
    try:
        again = target.trace_again(within_s=CALL_LIMITS.second_trace.after(target.call_s))
    except (Exception, TooSlow) as error:  # submitted code, and torch's tracer of it
        raise _NotRight(f"it cannot be traced: {user_lines.public_error_text(error)}") from error
    for first in find_divergences(target.graph, again):
        reason = f"a trace of it has another graph, with {first.is_} in place of {first.was}"
        raise _NotRight(reason, user_lines.line_facts(first.origin))


def _require_right(ledger: Ledger, evidence: Evidence) -> None:
    """Raise _NotRight if a layer found anything that restricts or rejects the artifact, or did not come to its end."""
    if ledger.random_methods or ledger.stochastic_methods:
        raise _NotRight(RANKS_DRAW)
    if evidence.failures:
        raise _NotRight(next(iter(evidence.failures.values())).detail)
    for finding in [*ledger.findings, *conclusions.findings_of(evidence)]:
        if verdict_of([], [finding]) in (Verdict.RESTRICTED, Verdict.REJECTED):
            raise _NotRight(finding.detail, {"file": finding.file, "line": finding.line, "source": finding.source})
    for one in ledger.comparisons:
        if not one.agrees:
            raise _NotRight(f"in these ranks, the artifact and the model differ on {one.case}")


def _claim(first: CheckCall, target: Target, outputs: Any, evidence: Evidence, budget: Budget) -> CheckedRanks:
    """Return what the evidence shows. Raises _NotRight if it shows too little."""
    claim = conclusions.claim_of(evidence)
    if claim is None:
        raise _NotRight(_NOT_CHECKED)
    claim = with_datatypes(claim, target, evidence, budget)
    shown = observed_contract.observe({target.method: first.call}, {target.method: outputs}).method(target.method)
    if shown.returns != target.call.returns:
        raise _NotRight(_RETURNS_OTHERS)
    contract = shown.with_claim(claim, conclusions.answers_of(evidence, claim))
    return CheckedRanks(first.name, claim, OtherRanks.of(contract))


def _not_covered(first: CheckCall, error: BaseException) -> Finding:
    line, reason = (error.line, error.reason) if isinstance(error, _NotRight) else ({}, str(error))
    shapes = {name: [*tensor.shape] for name, tensor in first.call.tensors.items()}
    return ranks_not_covered(first.call.method, first.name, shapes, reason, line)
