"""What is right is verified, nothing is said against it, and what it takes stays open."""

import pytest

from tests.corpus.judgement import is_as_good_as_it_was, judge
from tests.corpus.specimen import Specimen, specimens

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", specimens("right"), ids=lambda case: case.name)
def test_a_right_model_is_verified_and_open(case: Specimen) -> None:
    ours = judge(case)
    assert is_as_good_as_it_was(case, ours), ours
