"""Causes: what was found out about one line is one cause, and the finding that explains most leads."""

from typing import Any

from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.report.causes import causes_of, harmless


def finding(kind: str, line: int | None = 6, **others: Any) -> Finding:
    file = None if line is None else "net.py"
    return Finding(kind=kind, **{"detail": kind, "file": file, "line": line, **others})


WARNING = finding(Kind.TRACER_WARNING, effect="harmful", counterexample=0)
BAKED = finding(Kind.BAKED_VALUE, effect="harmful", remedy="use torch.where", counterexample=0)
DIFFERS = finding(Kind.OUTPUT_DIFFERS, counterexample=0)


def test_findings_about_one_line_are_one_cause() -> None:
    [cause] = causes_of([WARNING, DIFFERS, BAKED])

    assert cause.lead is BAKED
    assert cause.others == (DIFFERS,)
    assert (cause.weight, cause.remedy, cause.counterexample) == ("harmful", "use torch.where", 0)


def test_a_finding_without_a_line_belongs_to_the_cause_with_its_counterexample() -> None:
    somewhere = finding(Kind.OUTPUT_DIFFERS, line=None, counterexample=0)
    elsewhere = finding(Kind.OUTPUT_DIFFERS, line=None, counterexample=1)

    causes = causes_of([somewhere, elsewhere, BAKED])

    assert [cause.findings for cause in causes] == [(BAKED, somewhere), (elsewhere,)]


def test_two_lines_with_the_same_counterexample_are_two_causes() -> None:
    other = finding(Kind.BAKED_SIZE, line=7, effect="harmful", counterexample=0)

    assert [cause.lead.line for cause in causes_of([BAKED, other])] == [6, 7]


def test_the_same_finding_twice_is_told_once() -> None:
    said = finding(Kind.PROBES_LEFT_OUT, line=None)

    [cause] = causes_of([said, said])

    assert cause.findings == (said,)


def test_missing_weights_come_first_and_what_only_informs_comes_last() -> None:
    informs = finding(Kind.PROBES_LEFT_OUT, line=None)
    missing = finding(Kind.WEIGHTS_NOT_SENT, line=None)

    assert [cause.lead.kind for cause in causes_of([informs, BAKED, missing])] == [
        Kind.WEIGHTS_NOT_SENT,
        Kind.BAKED_VALUE,
        Kind.PROBES_LEFT_OUT,
    ]


def test_what_is_harmless_is_no_cause() -> None:
    proved = finding(Kind.TRACER_WARNING, effect="harmless")

    assert causes_of([proved]) == []
    assert harmless([proved, BAKED]) == [proved]
