"""The constants that a model returns beside its tensors are checked as its tensors are."""

import pytest
import torch

from tests.tracehouse.check.targets import Load, trace_target
from tracehouse.check.flip.flip import judge_reads
from tracehouse.check.observe import observe
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.differential.budget import Budget

X = torch.tensor([[0.5, 1.5, 2.0], [1.0, 0.125, 0.75]])
BUDGET_S = 120.0


def proof_of(load: Load, entrypoint: str) -> Proof:
    target, _ = trace_target(load("returns_constants", entrypoint), X)
    groups = Groups({"x": ("batch", "length")}, {"batch": 2, "length": 3}, {"x": {}})
    return prove(target, groups, {"batch": range(1, 9), "length": range(1, 65)}, Budget(BUDGET_S))


def test_what_is_returned_at_all_sizes_is_proven_for_all_of_them(load: Load) -> None:
    proof = proof_of(load, "Always")

    assert [str(region) for region in proof.regions] == ["batch 1 to 8, length 1 to 64"]


@pytest.mark.parametrize("entrypoint", ["Rows", "HalfRows"])
def test_a_constant_that_follows_a_size_is_proven_at_that_size_alone(load: Load, entrypoint: str) -> None:
    proof = proof_of(load, entrypoint)

    assert [str(region) for region in proof.regions] == ["batch 2, length 1 to 64"]
    assert proof.refutations


def test_a_constant_that_no_input_was_found_to_change_counts_against_the_trace(load: Load) -> None:
    """The graph of the tensors is the same whatever is read, so the constant alone shows that the read matters."""
    target, _ = trace_target(load("returns_constants", "Seldom"), X)
    effects = judge_reads(target, observe(target, Budget(BUDGET_S)), Budget(BUDGET_S))

    assert [one.effect for one in effects] == ["harmful"]
    assert effects[0].divergence is not None
    assert (effects[0].divergence.was, effects[0].divergence.is_) == ("'usual' as output.1", "'odd' as output.1")
