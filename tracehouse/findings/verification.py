"""Doubts: what a verification finds, each with its kind and what to write instead.

The kinds are those of `checks/findings.py`, which sees more and is believed less.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tracehouse.contract.dims import format_sizes
from tracehouse.contract.regions import Region
from tracehouse.differential.comparison import Difference
from tracehouse.errors import Failure
from tracehouse.findings.kinds import BAKED, Kind
from tracehouse.findings.remedies import (
    CHECK_BEFORE_ASKING,
    CONTROL_RANDOMNESS,
    DROP_FORCE_OUTPLACE,
    FIND_THE_CAUSE,
    FIX_CHECK_INPUT,
    GUARD_IGNORED_CALL,
    KEEP_GRADIENTS,
    KEEP_SIZE_DYNAMIC,
    PASS_STATE,
    REPLACE_VALUE_READ,
    SEE_HIDDEN_STATE,
    USE_EVAL_MODE,
)
from tracehouse.findings.trace_check import Finding
from tracehouse.spec.trace_spec import ServedForm, TraceSpec
from tracehouse.tensors.tensor import TensorSpec

# As the artifact raises it.
_CALLS_WHAT_IS_IGNORED = "annotated to be ignored and cannot be run"
# Where eager answers itself otherwise each time, so must it and the artifact.
_EXPLAINS_ANY_DIFFERENCE = {Kind.NONDETERMINISTIC, Kind.HIDDEN_STATE}
_EXPLAINS_A_DIFFERENCE = _EXPLAINS_ANY_DIFFERENCE | {Kind.OUTPUT_DIFFERS}
_SHAPES_SHOWN = 4
# There can be several of a method.
_OF_ONE_REGION = {Kind.SIZES_REFUSED, Kind.RANGE_REFUSED}


def differs(method: str, case: str, difference: Difference, known: Sequence[Finding], *, in_contract: bool) -> Finding:
    """Eager and artifact answer differently, each in a process of its own."""
    where = "" if in_contract else ", on inputs that the contract leaves out"
    read = _only_warning(known)
    return Finding(
        kind=Kind.OUTPUT_DIFFERS if in_contract else Kind.OUTPUT_DIFFERS_ELSEWHERE,
        detail=f"{method} on {case}: {difference.leaf!r} differs{where}: {difference.what}",
        file=read.file if read else None,
        line=read.line if read else None,
        source=read.source if read else None,
        confirmed=True,
        evidence={"method": method, "case": case, "output": difference.leaf, **difference.evidence},
        remedy=REPLACE_VALUE_READ if read else FIND_THE_CAUSE,
    )


def advised(finding: Finding, found: Sequence[Finding], spec: TraceSpec) -> Finding:
    """With the remedy that the request and the other findings point at, where they say more than this one does."""
    remedy = _remedy(finding, found, spec)
    return finding if remedy == finding.remedy else finding.model_copy(update={"remedy": remedy})


def _remedy(finding: Finding, found: Sequence[Finding], spec: TraceSpec) -> str | None:
    if finding.kind == Kind.NONDETERMINISTIC and finding.remedy == CONTROL_RANDOMNESS and spec.training is not False:
        return USE_EVAL_MODE
    if finding.kind not in (Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE):
        return finding.remedy
    if _CALLS_WHAT_IS_IGNORED in finding.detail:
        return GUARD_IGNORED_CALL
    if spec.options.force_outplace and spec.conversion.mode == "trace":
        return f"{DROP_FORCE_OUTPLACE}{finding.remedy or FIND_THE_CAUSE}"
    method = finding.evidence.get("method")
    keeps_state = any(one.kind == Kind.HIDDEN_STATE and one.evidence.get("method") == method for one in found)
    return SEE_HIDDEN_STATE if keeps_state and finding.remedy == FIND_THE_CAUSE else finding.remedy


def served_form_differs(method: str, case: str, difference: Difference, form: ServedForm) -> Finding:
    """The archive as it was traced gives what eager gives, and what is going to be served does not."""
    return Finding(
        kind=Kind.SERVED_FORM_DIFFERS,
        detail=f"{method} on {case}: {difference.leaf!r} differs in what torch.jit.{form} makes of the archive, and "
        f"not in the archive as it was traced: {difference.what}",
        confirmed=True,
        evidence={"method": method, "case": case, "form": form, "output": difference.leaf, **difference.evidence},
        remedy=f"leave out options.{form}, or allow for what it changes with check.check_tolerance",
    )


def gradients_differ(method: str, case: str, difference: Difference) -> Finding:
    """The way back through the artifact is another one than through the eager model."""
    return Finding(
        kind=Kind.GRADIENTS_DIFFER,
        detail=f"{method} on {case}, with gradients: {difference.leaf!r} differs: {difference.what}",
        confirmed=True,
        evidence={"method": method, "case": case, "gradient": difference.leaf, **difference.evidence},
        remedy=KEEP_GRADIENTS,
    )


def gradients_not_compared(method: str, why: str) -> Finding:
    """They were asked for, and nothing is known of them."""
    return Finding(
        kind=Kind.GRADIENTS_NOT_COMPARED,
        detail=f"the gradients of {method} were not compared: {why}",
        evidence={"method": method},
    )


def answers_otherwise(method: str, difference: Difference, *, drew: bool) -> Finding:
    """Eager alone, asked again on its example after everything else."""
    how = "draws random numbers, and answers differently each time" if drew else "answers its example differently later"
    return Finding(
        kind=Kind.NONDETERMINISTIC if drew else Kind.HIDDEN_STATE,
        detail=f"{method} {how}: {difference.what}",
        confirmed=True,
        evidence={
            "method": method,
            "output": difference.leaf,
            "first": difference.eager,
            "second": difference.artifact,
        },
        remedy=CONTROL_RANDOMNESS if drew else PASS_STATE,
    )


def refuses_check_input(case: str, failure: Failure) -> Finding:
    """The eager model itself refuses a check input, which then says nothing of the trace."""
    return Finding(
        kind=Kind.CHECK_INPUT_REFUSED,
        detail=f"{case}: {failure.detail}",
        evidence={"case": case, "exception": failure.facts.get("exception")},
        remedy=FIX_CHECK_INPUT,
        **_where(failure),
    )


def raised(failure: Failure) -> bool:
    """Whether the model refused by itself, and was not stopped."""
    return failure.facts.get("exception") is not None


def answers_where_eager_raises(method: str, case: str, failure: Failure) -> Finding:
    """Nothing differs, for there is one answer alone; and whoever asks the artifact is not told that it is none."""
    return Finding(
        kind=Kind.ANSWERS_WHERE_EAGER_RAISES,
        detail=f"{method} on {case}: the artifact answers where the eager model refuses, on inputs that the contract "
        f"takes: {failure.detail}",
        confirmed=True,
        evidence={"method": method, "case": case, "exception": failure.facts.get("exception")},
        **_where(failure),
        remedy=CHECK_BEFORE_ASKING,
    )


def size_differs(
    method: str,
    case: str,
    inputs: Sequence[TensorSpec],
    difference: Difference,
    region: Region,
    sizes: Mapping[str, int],
) -> Finding:
    """At a size that was said to be right, it is answered otherwise than eager does: none of that region's is."""
    shapes = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in inputs[:_SHAPES_SHOWN])
    return Finding(
        kind=Kind.BAKED_SIZE,
        detail=f"{method} with {shapes}: {difference.leaf!r} differs: {difference.what}",
        confirmed=True,
        evidence={
            "method": method,
            "case": case,
            "sizes": dict(sizes),
            "region": str(region),
            "basis": region.basis,
            "output": difference.leaf,
            **difference.evidence,
        },
        remedy=KEEP_SIZE_DYNAMIC,
    )


def returns_otherwise(
    method: str, case: str, outputs: Sequence[TensorSpec], region: Region, sizes: Mapping[str, int]
) -> Finding:
    """Both agree, on outputs that are no longer those of the contract."""
    returned = [f"{spec.name} {spec.datatype} of {len(spec.shape)} dims" for spec in outputs]
    return Finding(
        kind=Kind.OUTPUTS_VARY,
        detail=f"{method} at {format_sizes(sizes)} returns other outputs than on its example: {', '.join(returned)}",
        confirmed=True,
        evidence={
            "method": method, "case": case, "sizes": dict(sizes), "region": str(region),
            "outputs": [*returned],
        },
        remedy="return the same outputs, of the same ranks and datatypes, for inputs of all sizes",
    )  # fmt: skip


def sizes_refused(method: str, region: Region, failure: Failure | None) -> Finding:
    """Nothing was compared at any of them."""
    why = "nothing could be compared there" if failure is None else f"the last time: {failure.detail}"
    return Finding(
        kind=Kind.SIZES_REFUSED,
        detail=f"{method}: the eager model refuses all sizes that were tried of {region}; {why}",
        evidence={"method": method, "region": str(region)},
        **(_where(failure) if failure is not None else {}),
    )


def sizes_left_out(method: str, left_out: Sequence[str], budget_s: float) -> Finding:
    """What was not tried, once more, of the sizes that the check found to be right."""
    once = [*dict.fromkeys(left_out)]
    were = "one was" if len(once) == 1 else f"{len(once)} were"
    return Finding(
        kind=Kind.SIZES_LEFT_OUT,
        detail=f"{method}: of the sizes that the check tried or proved, {were} not compared once more in "
        f"{budget_s:.3g} s: {'; '.join(once)}",
        evidence={"method": method, "sizes": [*once]},
        remedy="raise check.budget_s",
    )


def value_refused(method: str, leaf: str, value: int, failure: Failure) -> Finding:
    """The end of a range of integers is none."""
    return Finding(
        kind=Kind.RANGE_REFUSED,
        detail=f"{method}: the eager model refuses {value} in {leaf!r}, within what the check took for its range: "
        f"{failure.detail}",
        evidence={"method": method, "input": leaf, "value": value},
        **_where(failure),
    )


def rows_seen(method: str, symbol: str, what: str) -> Finding:
    """Rows along that symbol are not answered as they would be alone."""
    return Finding(
        kind=Kind.ROWS_DEPEND,
        detail=f"{method}: requests cannot be answered together along {symbol!r}: {what}",
        evidence={"method": method, "symbol": symbol},
    )


def refuses_fresh(method: str, failure: Failure) -> Finding:
    """Nothing was compared that the artifact could not have been made for."""
    return Finding(
        kind=Kind.FRESH_INPUTS_REFUSED,
        detail=f"the eager model refuses all inputs but those that were submitted, so that the artifact could not be "
        f"verified on any other; the last time: {failure.detail}",
        confirmed=True,
        evidence={"method": method, "exception": failure.facts.get("exception")},
        **_where(failure),
        remedy="let the model take inputs of its example's shapes with other values near the example's own",
    )


def no_fresh(method: str) -> Finding:
    """There is nothing to draw."""
    return Finding(
        kind=Kind.FRESH_INPUTS_NONE,
        detail=f"the inputs of {method} hold no values that could be varied: it was verified on its example alone",
        evidence={"method": method},
    )


def says_the_same(known: Finding, finding: Finding) -> bool:
    """Whether nothing would be learned from the second one."""
    if known.evidence.get("method") != finding.evidence.get("method"):
        return False
    if finding.kind == Kind.CHECK_INPUT_REFUSED:
        return known.kind == finding.kind and known.evidence.get("case") == finding.evidence.get("case")
    if finding.kind in _OF_ONE_REGION:
        return known == finding
    explained = known.kind in _EXPLAINS_A_DIFFERENCE and finding.kind == Kind.OUTPUT_DIFFERS
    explained |= known.kind in _EXPLAINS_ANY_DIFFERENCE and finding.kind == Kind.OUTPUT_DIFFERS_ELSEWHERE
    explained |= known.kind in BAKED and finding.kind == Kind.OUTPUT_DIFFERS_ELSEWHERE
    return known.kind == finding.kind or explained


def _only_warning(known: Sequence[Finding]) -> Finding | None:
    """The line that the tracer warned of, if it is one: of several, none is known to be at fault."""
    warned = {(one.file, one.line): one for one in known if one.kind == Kind.TRACER_WARNING and one.line is not None}
    return next(iter(warned.values())) if len(warned) == 1 else None


def _where(failure: Failure) -> dict[str, Any]:
    """The line in a failure's facts, which a child has made up as it likes."""
    kinds = {"file": str, "line": int, "source": str}
    return {name: failure.facts[name] for name, kind in kinds.items() if isinstance(failure.facts.get(name), kind)}
