"""Duplicates: what a known finding explains."""

import pytest

from tracehouse.findings.duplicates import repeats
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind


def finding(kind: Kind, detail: str = "", **evidence: str) -> Finding:
    return Finding(kind=kind, detail=detail, evidence={"method": "forward", **evidence})


@pytest.mark.parametrize(
    ("known", "kind", "is_repeated"),
    [
        (Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS, True),
        (Kind.HIDDEN_STATE, Kind.OUTPUT_DIFFERS, True),
        (Kind.NONDETERMINISTIC, Kind.OUTPUT_DIFFERS_ELSEWHERE, True),
        (Kind.BAKED_SIZE, Kind.OUTPUT_DIFFERS_ELSEWHERE, True),
        (Kind.BAKED_VALUE, Kind.OUTPUT_DIFFERS_ELSEWHERE, True),
        (Kind.BAKED_VALUE, Kind.OUTPUT_DIFFERS, False),
        (Kind.OUTPUT_DIFFERS, Kind.OUTPUT_DIFFERS_ELSEWHERE, False),
        (Kind.OUTPUT_DIFFERS, Kind.HIDDEN_STATE, False),
    ],
)
def test_a_difference_that_a_known_finding_explains_is_not_told(known: Kind, kind: Kind, is_repeated: bool) -> None:
    assert repeats(finding(known), finding(kind)) is is_repeated
    assert not repeats(finding(known, method="encode"), finding(kind))


def test_each_check_input_and_each_region_is_told() -> None:
    first, second = (finding(Kind.CHECK_INPUT_REFUSED, case=f"check_inputs[{place}]") for place in range(2))
    assert repeats(first, first)
    assert not repeats(first, second)

    known = finding(Kind.SIZES_REFUSED, "batch 1 to 8")
    assert repeats(known, known)
    assert not repeats(known, finding(Kind.SIZES_REFUSED, "batch 9 to 16"))


def test_a_state_whose_line_is_known_is_told_beside_one_that_only_answers_show() -> None:
    shown = Finding(kind=Kind.HIDDEN_STATE, detail="", evidence={"method": "forward"})
    named = shown.model_copy(update={"file": "net.py", "line": 3})

    assert not repeats(shown, named)
    assert repeats(named, shown)
    assert repeats(named, named)
