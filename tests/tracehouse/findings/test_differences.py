"""Findings of differences: which line they name, and what they say to write instead."""

from typing import Any

import pytest

from tests.submissions import spec, tensor
from tracehouse.differential.comparison import Difference
from tracehouse.findings.differences import blame_line, leave_line_open, output_differs, with_better_remedy
from tracehouse.findings.finding import Effect, Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    DROP_FORCE_OUTPLACE,
    FIND_THE_CAUSE,
    GUARD_IGNORED_CALL,
    REPLACE_VALUE_READ,
    SEE_HIDDEN_STATE,
    SEND_A_SEED,
    USE_EVAL_MODE,
)
from tracehouse.findings.repeatability import stochastic
from tracehouse.findings.source_lines import VALUE_CHANGED, list_candidates, only_blamed
from tracehouse.spec.trace_spec import TraceSpec

IGNORED = "the artifact raised: RuntimeError: helper is annotated to be ignored and cannot be run"
STATE = Finding(kind=Kind.HIDDEN_STATE, detail="", evidence={"method": "forward"})


def difference_with(line: int | None = None, what: str = "differs") -> Finding:
    """The finding, with this line at fault."""
    finding = output_differs("forward", "fresh 1", Difference("output", what), in_contract=True)
    if line is None:
        return leave_line_open(finding, [])
    return blame_line(finding, {"file": "net.py", "line": line}, VALUE_CHANGED, reads_value=True)


def known(kind: Kind, line: int, effect: Effect) -> Finding:
    return Finding(kind=kind, detail="", file="net.py", line=line, effect=effect, evidence={"method": "forward"})


def asked_for(**members: Any) -> TraceSpec:
    return TraceSpec.model_validate(spec("linear", example_inputs=[tensor([1.0])], **members))


def test_a_blamed_line_says_how_it_is_known_and_what_to_write() -> None:
    finding = difference_with(6)

    assert (finding.file, finding.line) == ("net.py", 6)
    assert finding.evidence["line_known_by"] == "changing this value changed the graph"
    assert finding.remedy == REPLACE_VALUE_READ


def test_without_a_line_the_candidates_are_listed() -> None:
    finding = leave_line_open(difference_with(), ["net.py:6", "net.py:9"])

    assert (finding.file, finding.line) == (None, None)
    assert "no line known, and net.py:6, net.py:9 may be at fault" in finding.detail
    assert finding.evidence["candidates"] == ["net.py:6", "net.py:9"]
    assert finding.remedy == FIND_THE_CAUSE
    assert finding.confirmed


def test_only_a_harmful_line_is_blamed_and_a_harmless_one_is_no_candidate() -> None:
    harmful, other = known(Kind.BAKED_VALUE, 6, "harmful"), known(Kind.BAKED_VALUE, 9, "harmful")
    harmless = known(Kind.TRACER_WARNING, 3, "harmless")
    unknown = known(Kind.TRACER_WARNING, 4, "unknown")

    assert only_blamed([harmless, unknown], "forward") is None
    assert only_blamed([harmless, harmful], "forward") is harmful
    assert only_blamed([harmful, other], "forward") is None
    assert only_blamed([harmful], "encode") is None
    assert list_candidates([harmless, unknown, harmful]) == ["net.py:4", "net.py:6"]


@pytest.mark.parametrize("members", [{}, {"options": {"force_outplace": True}}])
def test_a_call_of_what_the_archive_leaves_out_has_its_own_remedy(members: dict[str, Any]) -> None:
    finding = with_better_remedy(difference_with(6, what=IGNORED), [STATE], asked_for(**members))

    assert finding.remedy == GUARD_IGNORED_CALL


def test_hidden_state_explains_a_difference_whose_cause_is_not_known() -> None:
    assert with_better_remedy(difference_with(), [STATE], asked_for()).remedy == SEE_HIDDEN_STATE
    assert with_better_remedy(difference_with(6), [STATE], asked_for()).remedy == REPLACE_VALUE_READ
    assert with_better_remedy(difference_with(), [], asked_for()).remedy == FIND_THE_CAUSE


def test_force_outplace_is_named_before_any_other_cause() -> None:
    finding = with_better_remedy(difference_with(6), [], asked_for(options={"force_outplace": True}))

    assert finding.remedy == f"{DROP_FORCE_OUTPLACE}{REPLACE_VALUE_READ}"


@pytest.mark.parametrize(("training", "remedy"), [(False, SEND_A_SEED), (True, USE_EVAL_MODE)])
def test_the_remedy_of_random_numbers_depends_on_the_mode(training: bool, remedy: str) -> None:
    finding = stochastic("forward", Difference("output", "differs"))

    assert with_better_remedy(finding, [], asked_for(training=training)).remedy == remedy
