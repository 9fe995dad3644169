"""What is scripted is proven where it follows sizes: slices, lists, loops that turn once for each element, calls."""

from collections.abc import Callable

import pytest
import torch

from tests.tracehouse.check.targets import make_target
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.differential.budget import Budget
from tracehouse.eager.model import LoadedModel

Load = Callable[..., LoadedModel]
BATCH, LENGTH = 3, 8
WANTED = {"batch": range(1, 65), "length": range(1, 13)}
ALL = "batch 1 to 64, length 1 to 12"


def proof_of(module: torch.nn.Module, *, scripted: bool) -> Proof:
    x = torch.rand(BATCH, LENGTH, generator=torch.Generator().manual_seed(0))
    target = make_target(module, x, scripted=scripted)
    groups = Groups({"x": ("batch", "length")}, {"batch": BATCH, "length": LENGTH}, {"x": {}})
    return prove(target, groups, WANTED, Budget(120))


def proven(proof: Proof, *, length: int) -> bool:
    return any(region.contains({"batch": BATCH, "length": length}) for region in proof.regions)


@pytest.mark.parametrize("name", ["Slices", "Lists", "Subtracts", "Steps"])
def test_a_right_script_is_proven_for_all_sizes_in_one_region(load: Load, name: str) -> None:
    proof = proof_of(load("loops_over_sizes", name).module, scripted=True)

    assert ([str(region) for region in proof.regions], proof.gaps) == ([ALL], [])


@pytest.mark.parametrize("name", ["WrongSlices", "WrongLists", "WrongSubtracts"])
def test_a_script_that_computes_otherwise_is_not_proven(load: Load, name: str) -> None:
    proof = proof_of(load("loops_over_sizes", name).module, scripted=True)

    assert not proven(proof, length=LENGTH + 1)


def test_a_loop_that_differs_in_a_late_turn_is_proven_for_fewer_turns(load: Load) -> None:
    proof = proof_of(load("loops_over_sizes", "WrongSteps").module, scripted=True)

    assert [length for length in WANTED["length"] if proven(proof, length=length)] == [*range(1, 11)]
    assert {one.sizes["length"] for one in proof.refutations} <= {11, 12}


@pytest.mark.parametrize("name", ["CallsAFunction", "CallsAModule", "CallsAnActivation"])
def test_a_trace_that_calls_what_is_scripted_is_proven_for_all_sizes(load: Load, name: str) -> None:
    proof = proof_of(load("loops_over_sizes", name).module, scripted=False)

    assert ([str(region) for region in proof.regions], proof.gaps) == ([ALL], [])


def test_a_number_that_the_trace_hands_to_a_script_is_proven_for_one_size(load: Load) -> None:
    proof = proof_of(load("loops_over_sizes", "WrongFactor").module, scripted=False)

    assert [length for length in WANTED["length"] if proven(proof, length=length)] == [LENGTH]


def test_a_script_that_is_not_run_on_symbols_is_left_to_torch(load: Load) -> None:
    module = load("loops_over_sizes", "CallsAClass").module

    assert proof_of(module, scripted=False).gaps  # and nothing is raised
