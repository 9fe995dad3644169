"""Findings about answers that differ between the eager model and the artifact."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import JsonValue

from tracehouse.differential.comparison import Difference
from tracehouse.errors import Failure
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    CHECK_BEFORE_ASKING,
    DROP_FORCE_OUTPLACE,
    FIND_THE_CAUSE,
    GUARD_IGNORED_CALL,
    KEEP_GRADIENTS,
    LEAVE_FORM_OUT,
    PASS_CONTIGUOUS,
    REPLACE_VALUE_READ,
    SEE_HIDDEN_STATE,
    USE_EVAL_MODE,
)
from tracehouse.findings.source_lines import LAYOUT_CHANGED, SourceLine, line_of_failure
from tracehouse.spec.trace_spec import ServedForm, TraceSpec

# torch's message if an artifact calls a function that is marked @torch.jit.unused or @torch.jit.ignore. The error has
# no type of its own.
_IGNORED_CALL_ERROR = "annotated to be ignored and cannot be run"


class Cause(StrEnum):
    """Why an output differs, where that is known. The finding has it as `cause` in its evidence."""

    VALUE_READ = "value-read"
    IGNORED_CALL = "ignored-call"


_CANDIDATES_SHOWN = 3
_CANDIDATES_MAX = 20


def output_differs(
    method: str, case: str, difference: Difference, *, in_contract: bool, inputs: Sequence[str] = ()
) -> Finding:
    """Return the finding that the eager model and the artifact answer differently. It names no line yet.

    `inputs` are the names of the inputs.
    """
    where = "" if in_contract else ", on inputs that the contract refuses"
    ignored_call = _IGNORED_CALL_ERROR in difference.what
    evidence: dict[str, JsonValue] = {"method": method, "case": case}
    evidence |= {"inputs": [*inputs]} if inputs else {}
    evidence |= {"cause": Cause.IGNORED_CALL.value} if ignored_call else {}
    return Finding(
        kind=Kind.OUTPUT_DIFFERS if in_contract else Kind.OUTPUT_DIFFERS_ELSEWHERE,
        detail=f"{method} on {case}: {difference.leaf!r} differs{where}: {difference.what}",
        confirmed=True,
        evidence={**evidence, "output": difference.leaf, **difference.evidence},
        remedy=GUARD_IGNORED_CALL if ignored_call else FIND_THE_CAUSE,
    )


def blame_line(finding: Finding, line: SourceLine, known_by: str, *, reads_value: bool) -> Finding:
    """Return the finding of a difference with the line that makes the answers differ, and how that is known.

    `reads_value` is whether the line reads a value out of a tensor.
    """
    evidence = {**finding.evidence, "line_known_by": known_by}
    changes: dict[str, object] = {**line, "evidence": evidence, "detail": f"{finding.detail}; line: {known_by}"}
    if reads_value and "cause" not in finding.evidence:
        changes |= {"remedy": REPLACE_VALUE_READ, "evidence": {**evidence, "cause": Cause.VALUE_READ.value}}
    return finding.model_copy(update=changes)


def leave_line_open(finding: Finding, candidates: Sequence[str]) -> Finding:
    """Return the finding of a difference of which no line is known; `candidates` are lines that read values."""
    where = f", and {', '.join(candidates[:_CANDIDATES_SHOWN])} may be at fault" if candidates else ""
    evidence = {**finding.evidence, "candidates": [*candidates[:_CANDIDATES_MAX]]}
    return finding.model_copy(update={"detail": f"{finding.detail}; no line known{where}", "evidence": evidence})


def with_better_remedy(finding: Finding, findings: Sequence[Finding], spec: TraceSpec) -> Finding:
    """Return the finding with a better remedy, if the request's options or the other findings point to one."""
    remedy = _better_remedy(finding, findings, spec)
    return finding if remedy is None else finding.model_copy(update={"remedy": remedy})


def served_form_differs(method: str, case: str, difference: Difference, form: ServedForm) -> Finding:
    """Return the finding that the archive as it was traced agrees, and the form that is to be served differs."""
    return Finding(
        kind=Kind.SERVED_FORM_DIFFERS,
        detail=f"{method} on {case}: {difference.leaf!r} differs after torch.jit.{form}, and agrees in the archive as "
        f"it was traced: {difference.what}",
        confirmed=True,
        evidence={"method": method, "case": case, "form": form, "output": difference.leaf, **difference.evidence},
        remedy=LEAVE_FORM_OUT.format(option=f"options.{form}"),
    )


def gradients_differ(method: str, case: str, difference: Difference) -> Finding:
    """Return the finding that the artifact's gradients are not the eager model's."""
    return Finding(
        kind=Kind.GRADIENTS_DIFFER,
        detail=f"{method} on {case}, with gradients: {difference.leaf!r} differs: {difference.what}",
        confirmed=True,
        evidence={"method": method, "case": case, "gradient": difference.leaf, **difference.evidence},
        remedy=KEEP_GRADIENTS,
    )


def gradients_not_compared(method: str, reason: str) -> Finding:
    """Return the finding that gradients were asked for, and nothing is known about them; `reason` says why."""
    return Finding(
        kind=Kind.GRADIENTS_NOT_COMPARED,
        detail=f"the gradients of {method} were not compared: {reason}",
        evidence={"method": method},
    )


def layout_differs(
    method: str, cases: Sequence[str], difference: Difference, read: str | None, line: SourceLine
) -> Finding:
    """Return the finding that answers follow the layout of the inputs.

    `cases` name the layouts, `difference` is that of the first one, and `read` is what the model reads on the line.
    """
    return Finding(kind=Kind.LAYOUT_DIFFERS, **_describe_layouts(method, cases, difference, read), **line)


def gradient_mode_differs(
    method: str, cases: Sequence[str], difference: Difference, read: str | None, line: SourceLine
) -> Finding:
    """Return the finding that answers are others while gradients are enabled, or for inputs that require one."""
    return Finding(kind=Kind.GRADIENT_MODE_DIFFERS, **_describe_layouts(method, cases, difference, read), **line)


def layout_not_covered(
    method: str, cases: Sequence[str], difference: Difference, read: str | None, line: SourceLine
) -> Finding:
    """Return the finding that a call was handed in whose layout changes the answer; `cases` name such calls."""
    return Finding(kind=Kind.LAYOUT_NOT_COVERED, **_describe_layouts(method, cases, difference, read), **line)


def _describe_layouts(method: str, cases: Sequence[str], difference: Difference, read: str | None) -> dict[str, Any]:
    """Return the fields that findings about layouts have in common."""
    seen = "" if read is None else f"; the model reads {read}"
    further = "" if len(cases) == 1 else f", and in {len(cases) - 1} more case" + "s" * (len(cases) > 2)
    known: dict[str, JsonValue] = {} if read is None else {"read": read, "line_known_by": LAYOUT_CHANGED}
    return {
        "detail": f"{method} on {cases[0]}: {difference.leaf!r} differs: {difference.what}{further}{seen}",
        "confirmed": True,
        "evidence": {"method": method, "case": cases[0], "cases": [*cases], **difference.evidence, **known},
        "remedy": PASS_CONTIGUOUS,
    }


def answers_where_eager_raises(method: str, case: str, failure: Failure) -> Finding:
    """Return the finding that the artifact answers inputs on which the eager model raises."""
    return Finding(
        kind=Kind.ANSWERS_WHERE_EAGER_RAISES,
        detail=f"{method} on {case}: the eager model raises and the artifact answers, on inputs that the contract "
        f"accepts: {failure.detail}",
        confirmed=True,
        evidence={"method": method, "case": case, "exception": failure.facts.get("exception")},
        remedy=CHECK_BEFORE_ASKING,
        **line_of_failure(failure),
    )


def model_raised(failure: Failure) -> bool:
    """Whether the model itself raised, and was not stopped from outside."""
    return failure.facts.get("exception") is not None


def _better_remedy(finding: Finding, findings: Sequence[Finding], spec: TraceSpec) -> str | None:
    if finding.kind == Kind.STOCHASTIC:
        return USE_EVAL_MODE if spec.training is not False else None
    if finding.kind not in (Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE):
        return None
    cause = finding.evidence.get("cause")
    if cause == Cause.IGNORED_CALL:
        return None
    if spec.options.force_outplace and spec.conversion.mode == "trace":
        return f"{DROP_FORCE_OUTPLACE}{finding.remedy or FIND_THE_CAUSE}"
    method = finding.evidence.get("method")
    has_state = any(one.kind == Kind.HIDDEN_STATE and one.evidence.get("method") == method for one in findings)
    return SEE_HIDDEN_STATE if has_state and cause is None else None
