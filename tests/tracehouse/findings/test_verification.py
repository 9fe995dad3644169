"""Doubts: which line is blamed for a difference, and what is to be written instead."""

from tracehouse.differential.comparison import Difference
from tracehouse.findings import verification
from tracehouse.findings.remedies import FIND_THE_CAUSE, REPLACE_VALUE_READ
from tracehouse.findings.trace_check import Finding


def difference_with(*warned: int | None) -> Finding:
    """The finding, where the tracer warned of these lines."""
    known = [Finding(kind="tracer-warning", detail="", file="net.py", line=line) for line in warned]
    return verification.differs("forward", "fresh 1", Difference("output", "differs"), known, in_contract=True)


def test_the_one_line_that_the_tracer_warned_of_is_blamed_with_what_to_write() -> None:
    finding = difference_with(None, 6, 6)

    assert (finding.file, finding.line) == ("net.py", 6)
    assert finding.remedy == REPLACE_VALUE_READ


def test_each_size_that_is_left_out_is_told_once() -> None:
    [one, two] = [
        verification.sizes_left_out("forward", sizes, 4.5) for sizes in (["batch 9"] * 2, ["batch 9", "batch 17"])
    ]

    assert "one was not compared once more in 4.5 s: batch 9" in one.detail
    assert "2 were not compared" in two.detail
    assert one.evidence["sizes"] == ["batch 9"]


def test_of_several_lines_none_is_blamed() -> None:
    finding = difference_with(6, 9)

    assert (finding.file, finding.line) == (None, None)
    assert finding.remedy == FIND_THE_CAUSE
    assert finding.confirmed
