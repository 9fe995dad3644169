"""What is wrong is found as well as it was: it is refused, and a finding names a line that is at fault."""

import pytest

from tests.corpus.judgement import is_as_good_as_it_was, judge
from tests.corpus.specimen import Specimen, specimens

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", specimens("wrong"), ids=lambda case: case.name)
def test_a_wrong_model_is_found(case: Specimen) -> None:
    ours = judge(case)
    assert is_as_good_as_it_was(case, ours), ours
