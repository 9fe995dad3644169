"""Findings about what a trace keeps of its example: a value, a size, or that it was being traced."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from tracehouse.contract.regions import Region
from tracehouse.differential.comparison import Difference
from tracehouse.errors import Failure
from tracehouse.findings.finding import Effect, Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    FIND_THE_CAUSE,
    KEEP_SIZE_DYNAMIC,
    LEAVE_SYMBOL_OUT,
    RENEW_WHAT_IS_KEPT,
    SETTLE_VALUE_READ,
)
from tracehouse.findings.source_lines import UNKNOWN_LINE, SourceLine, line_of_failure
from tracehouse.tensors.tensor import TensorSpec

_SHAPES_SHOWN = 4

Evidence = Mapping[str, JsonValue]


def value_read(
    method: str,
    reason: str,
    *,
    remedy: str,
    effect: Effect,
    confirmed: bool | None,
    evidence: Evidence,
    line: SourceLine,
    mend_also: Sequence[str] = (),
) -> Finding:
    """Return the finding that a line reads a value out of a tensor, and the trace is wrong for other values.

    `mend_also` are lines that must be mended as well before the finding's counterexample is answered rightly.
    """
    beside = f"; its counterexample is answered rightly only once {', '.join(mend_also)} is mended too"
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"this line of {method} reads a value out of a tensor, and the trace keeps what followed from the "
        f"example's value: {reason}{beside if mend_also else ''}",
        confirmed=confirmed,
        evidence={"method": method, **evidence} | ({"mend_also": [*mend_also]} if mend_also else {}),
        remedy=remedy,
        effect=effect,
        reason=reason,
        **line,
    )


def unsettled_value_read(method: str, reason: str, line: SourceLine) -> Finding:
    """Return the finding that a line reads a value, and nobody knows whether the trace is right for other values.

    Somebody may get a wrong answer by it, so it weighs as much as one that is known to be harmful.
    """
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"this line of {method} reads a value out of a tensor, and the check could not find out whether the "
        f"trace is right for other values: {reason}",
        confirmed=False,
        evidence={"method": method},
        remedy=SETTLE_VALUE_READ,
        effect="unknown",
        reason=reason,
        **line,
    )


def value_in_graph(
    method: str,
    retraced_on: str,
    *,
    operator: str,
    was: str,
    now: str,
    confirmed: bool | None,
    evidence: Evidence,
    line: SourceLine,
) -> Finding:
    """Return the finding that another trace of the same model has another graph.

    `retraced_on` says on what it was traced again; `operator` has `was` in the artifact's graph and `now` in the other.
    """
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"the graph of {method} changes when it is traced {retraced_on}: {operator} has {now} there, and {was} "
        f"in the artifact{'' if line else '; no line known'}",
        confirmed=confirmed,
        evidence={"method": method, **evidence},
        remedy=FIND_THE_CAUSE,
        effect="harmful",
        reason=f"a trace {retraced_on} gives another graph",
        **line,
    )


def tracing_flag(method: str, reason: str, line: SourceLine) -> Finding:
    """Return the finding that the model asks whether it is being traced, and computes something else then."""
    return Finding(
        kind=Kind.BAKED_VALUE,
        detail=f"this line of {method} asks whether the model is being traced, and the model computes something else "
        f"while it is: {reason}",
        confirmed=True,
        evidence={"method": method},
        remedy="compute the same whether the model is being traced or not: remove the test for tracing",
        effect="harmful",
        reason=reason,
        **line,
    )


def size_kept(
    method: str,
    *,
    dims: str,
    shapes: str,
    what: str,
    evidence: Evidence,
    remedy: str,
    line: SourceLine,
    is_tied: bool = False,
) -> Finding:
    """Return the finding that the trace keeps the sizes of these dims, as the check saw at other shapes.

    If the dims are tied, the trace is right where they change together.
    """
    keeps = f"is right only where {dims} change together" if is_tied else f"keeps the example's size of {dims}"
    differ = "where one of these sizes changes alone" if is_tied else "at another size"
    return _baked_size(
        f"the trace of {method} {keeps}: with {shapes}, {what}",
        {"method": method, **evidence},
        remedy=remedy,
        reason=f"the answers differ {differ}",
        line=line,
    )


def size_of_region_kept(
    method: str,
    case: str,
    inputs: Sequence[TensorSpec],
    difference: Difference,
    region: Region,
    sizes: Mapping[str, int],
) -> Finding:
    """Return the finding that a size of a region which was claimed to be right is answered differently.

    Nothing of that region is in the contract then.
    """
    shapes = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in inputs[:_SHAPES_SHOWN])
    evidence: Evidence = {
        "method": method,
        "case": case,
        "sizes": dict(sizes),
        "region": str(region),
        "basis": region.basis,
        "output": difference.leaf,
        **difference.evidence,
    }
    return _baked_size(f"{method} with {shapes}: {difference.leaf!r} differs: {difference.what}", evidence)


def keeps_a_size(method: str, difference: Difference, line: SourceLine) -> Finding:
    """Return the finding that the eager model keeps something of the sizes of its first call.

    Which of its answers is meant at other sizes cannot be said.
    """
    return Finding(
        kind=Kind.KEEPS_A_SIZE,
        detail=f"{method} keeps something that it computed for the sizes of its first call, so the contract accepts "
        f"the example's sizes alone: {difference.what}",
        confirmed=True,
        evidence={
            "method": method,
            "output": difference.leaf,
            "first": difference.eager,
            "second": difference.artifact,
        },
        remedy=RENEW_WHAT_IS_KEPT,
        **line,
    )


def dynamic_refused(method: str, symbol: str, dims: str, failure: Failure) -> Finding:
    """Return the finding that a size was declared to vary, and the eager model accepts only the example's."""
    return Finding(
        kind=Kind.DYNAMIC_REFUSED,
        detail=f"{method}: {dims} was declared to vary as {symbol}, and the model raises at every other size that was "
        f"tried, so the contract accepts the example's alone: {failure.detail}",
        confirmed=True,
        evidence={"method": method, "symbol": symbol, "exception": failure.facts.get("exception")},
        remedy=LEAVE_SYMBOL_OUT.format(symbol=symbol),
        **line_of_failure(failure),
    )


def _baked_size(
    detail: str,
    evidence: Evidence,
    *,
    remedy: str = KEEP_SIZE_DYNAMIC,
    reason: str | None = None,
    line: SourceLine = UNKNOWN_LINE,
) -> Finding:
    return Finding(
        kind=Kind.BAKED_SIZE,
        detail=detail,
        confirmed=True,
        evidence={**evidence},
        remedy=remedy,
        effect="harmful" if reason else None,
        reason=reason,
        **line,
    )
