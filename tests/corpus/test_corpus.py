"""The corpus says the truth about its models: the wrong ones trace and go wrong as they say, the right ones do not."""

import pytest

from tests.corpus import specimen
from tests.corpus.specimen import Specimen, called, specimens

WRONG, RIGHT = specimens("wrong"), specimens("right")
GOES_WRONG = {
    "size": specimen.wrong_on,
    "value": specimen.wrong_on,
    "input-write": specimen.wrong_on,
    "state": specimen.goes_wrong_in_a_row,
    "random": specimen.draws_otherwise,
    "ambient": specimen.goes_wrong_elsewhere,
}


def name_of(case: Specimen) -> str:
    return case.name


def test_there_are_many_of_each() -> None:
    assert len(WRONG) >= 110
    assert len(RIGHT) >= 110
    assert {case.kind for case in WRONG} == GOES_WRONG.keys()


@pytest.mark.parametrize("case", [*WRONG, *RIGHT], ids=name_of)
def test_the_model_itself_answers_all_its_inputs(case: Specimen) -> None:
    for call in [case.example, *case.others]:
        given = called(case.fresh(), call)
        assert not isinstance(given, Exception), given


@pytest.mark.parametrize("case", WRONG, ids=name_of)
def test_a_wrong_model_traces_and_goes_wrong_as_it_says(case: Specimen) -> None:
    assert GOES_WRONG[case.kind](case)


@pytest.mark.parametrize("case", WRONG, ids=name_of)
def test_a_wrong_model_names_lines_of_its_code(case: Specimen) -> None:
    lines = case.text.splitlines()
    assert case.faults
    assert all(lines[number - 1].split("#")[0].strip() for number in case.faults)


@pytest.mark.parametrize("case", RIGHT, ids=name_of)
def test_a_right_model_is_traced_right(case: Specimen) -> None:
    assert specimen.wrong_on(case, case.traced()) == []
    assert not specimen.goes_wrong_in_a_row(case)
    assert not specimen.draws_otherwise(case)


@pytest.mark.parametrize("case", RIGHT, ids=name_of)
def test_the_dims_said_to_be_open_are_those_of_others(case: Specimen) -> None:
    """Each has another size in some of the others: else nothing here shows that it is open."""
    example = case.leaves(case.example)
    others = [case.leaves(call) for call in case.others]
    for name, dim in case.open_dims:
        assert any(other[name].shape[dim] != example[name].shape[dim] for other in others), (name, dim)
