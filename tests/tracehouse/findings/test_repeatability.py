"""Findings about what an answer may depend on besides the inputs."""

import pytest

from tracehouse.findings import repeatability


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (["blocks.0.bn.running_mean", "blocks.0.bn.num_batches_tracked"], "call model.eval()"),
        (["blocks.0.bn.running_mean", "cache"], "make the state an input"),
    ],
)
def test_statistics_that_train_mode_changes_are_told_of_eval_mode(names: list[str], first: str) -> None:
    assert (repeatability.state_carried("forward", names, {}).remedy or "").startswith(first)
