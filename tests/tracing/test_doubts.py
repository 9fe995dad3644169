"""Doubts: which line is blamed for a difference, and what is to be written instead."""

from service.domain.trace_check import Finding
from workers.closeness import Difference
from workers.tracing import doubts


def difference_with(*warned: int | None) -> Finding:
    """The finding, where the tracer warned of these lines."""
    known = [Finding(kind="tracer-warning", detail="", file="net.py", line=line) for line in warned]
    return doubts.differs("forward", "fresh 1", Difference("output", "differs"), known, in_contract=True)


def test_the_one_line_that_the_tracer_warned_of_is_blamed_with_what_to_write() -> None:
    finding = difference_with(None, 6, 6)

    assert (finding.file, finding.line) == ("net.py", 6)
    assert finding.remedy == doubts.ADVICE_ON_A_READ


def test_of_several_lines_none_is_blamed() -> None:
    finding = difference_with(6, 9)

    assert (finding.file, finding.line) == (None, None)
    assert finding.remedy == doubts.ADVICE
    assert finding.confirmed
