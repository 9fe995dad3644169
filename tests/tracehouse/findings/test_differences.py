"""Findings of differences: which line they name, and what they say to write instead."""

from typing import Any

import pytest

from tests.submissions import spec, tensor
from tracehouse.differential.comparison import Difference
from tracehouse.findings.differences import output_differs, with_better_remedy
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.remedies import (
    CONTROL_RANDOMNESS,
    DROP_FORCE_OUTPLACE,
    FIND_THE_CAUSE,
    GUARD_IGNORED_CALL,
    REPLACE_VALUE_READ,
    SEE_HIDDEN_STATE,
    USE_EVAL_MODE,
)
from tracehouse.findings.repeatability import nondeterministic
from tracehouse.findings.source_lines import only_warned_line
from tracehouse.spec.trace_spec import TraceSpec

IGNORED = "the artifact raised: RuntimeError: helper is annotated to be ignored and cannot be run"
STATE = Finding(kind=Kind.HIDDEN_STATE, detail="", evidence={"method": "forward"})


def difference_with(*warned: int | None, what: str = "differs") -> Finding:
    """The finding, where the tracer warned of these lines."""
    known = [Finding(kind=Kind.TRACER_WARNING, detail="", file="net.py", line=line) for line in warned]
    line = only_warned_line(known)
    difference = Difference("output", what)
    return output_differs("forward", "fresh 1", difference, in_contract=True, reads_value=bool(line), line=line)


def asked_for(**members: Any) -> TraceSpec:
    return TraceSpec.model_validate(spec("linear", example_inputs=[tensor([1.0])], **members))


def test_the_one_line_that_the_tracer_warned_of_is_blamed_with_what_to_write() -> None:
    finding = difference_with(None, 6, 6)

    assert (finding.file, finding.line) == ("net.py", 6)
    assert finding.remedy == REPLACE_VALUE_READ


def test_with_several_warned_lines_no_line_is_blamed() -> None:
    finding = difference_with(6, 9)

    assert (finding.file, finding.line) == (None, None)
    assert finding.remedy == FIND_THE_CAUSE
    assert finding.confirmed


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


@pytest.mark.parametrize(("training", "remedy"), [(False, CONTROL_RANDOMNESS), (True, USE_EVAL_MODE)])
def test_the_remedy_of_random_numbers_depends_on_the_mode(training: bool, remedy: str) -> None:
    finding = nondeterministic("forward", Difference("output", "differs"))

    assert with_better_remedy(finding, [], asked_for(training=training)).remedy == remedy
