"""Proven runs: sizes that no case proves have no run."""

from tracehouse.check.prove.proven_runs import ProvenRuns
from tracehouse.check.prove.size_division import SizeDivision


def test_sizes_that_are_left_and_sizes_that_nobody_wants_have_no_run() -> None:
    runs = ProvenRuns(SizeDivision({"batch": range(1, 9)}), [])

    assert runs.run_at({"batch": 4}) is None
    assert runs.run_at({"batch": 9}) is None
    assert runs.run_at({"seq": 4}) is None
