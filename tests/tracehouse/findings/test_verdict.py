"""Verdicts: their order, and what decides between them."""

from itertools import pairwise

import pytest

from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.kinds import Kind
from tracehouse.findings.verdict import Verdict, verdict_of, worst

ORDER = [Verdict.VERIFIED, Verdict.SELF_CONSISTENT, Verdict.RESTRICTED, Verdict.REJECTED]


def differing(*, in_contract: bool) -> Comparison:
    return Comparison(method="forward", case="fresh 1", in_contract=in_contract, agrees=False)


def test_the_verdicts_have_one_order_from_the_best_to_the_worst() -> None:
    assert sorted(Verdict, key=lambda verdict: verdict.rank) == ORDER
    for better, worse in pairwise(ORDER):
        assert worst([worse, better]) is worst([better, worse]) is worse


@pytest.mark.parametrize("kind", [Kind.NO_EAGER_MODEL, Kind.ALREADY_SCRIPTED])
def test_what_was_compared_with_itself_is_self_consistent_at_best(kind: Kind) -> None:
    found = [Finding(kind=kind, detail="")]

    assert verdict_of([], found) is Verdict.SELF_CONSISTENT
    assert verdict_of([differing(in_contract=False)], found) is Verdict.RESTRICTED
    assert verdict_of([differing(in_contract=True)], found) is Verdict.REJECTED
