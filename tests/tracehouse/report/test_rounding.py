"""Numbers in sentences are rounded, and never so that two of them become one."""

import pytest

from tracehouse.report.rounding import round_numbers


@pytest.mark.parametrize(
    ("sentence", "rounded"),
    [
        ("eager gives -0.706571102142334 at [0, 1]", "eager gives -0.7066 at [0, 1]"),
        ("a call needs 24·batch + 2.58e+03 bytes", "a call needs 24·batch + 2580 bytes"),
        ("123456789.25 apart", "123456789 apart"),
        ("1.7976931348623157e308", "1.798e+308"),
        ("[0.123456789, 12.0, 1e-12]", "[0.1235, 12.0, 1e-12]"),
    ],
)
def test_a_number_has_as_many_digits_as_a_person_reads(sentence: str, rounded: str) -> None:
    assert round_numbers(sentence) == rounded


@pytest.mark.parametrize("sentence", ["1.00000012 and 1.00000024", "eager gives 5, and the artifact 5.0000001"])
def test_numbers_that_differ_still_differ(sentence: str) -> None:
    assert round_numbers(sentence) == sentence


@pytest.mark.parametrize(
    "sentence", ["torch 2.13.0+cpu", "net.py:12.34567", "v1.23456-2", "9223372036854775807", "1e400"]
)
def test_names_versions_and_whole_numbers_stay(sentence: str) -> None:
    assert round_numbers(sentence) == sentence
