"""Witness sizes: where calls try out a proof, as far as they take little time, and small sizes that cost less."""

from dataclasses import replace

import pytest
import torch

from tests.tracehouse.check.targets import make_target
from tracehouse.check.prove.prover import Proof, prove
from tracehouse.check.size_groups import Groups
from tracehouse.check.witness_sizes import border_sizes, doubtful_sizes, is_proven
from tracehouse.contract.regions import Region, Span
from tracehouse.differential.budget import Budget
from tracehouse.differential.size_samples import stand_in_sizes


class Average(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def groups_of(batch: int, length: int) -> Groups:
    return Groups({"x": ("batch", "length")}, {"batch": batch, "length": length}, {"x": {}})


def proof_of(batch: range, length: range, module: torch.nn.Module | None = None) -> tuple[Proof, Groups]:
    target = make_target(module or Average(), torch.ones(2, 64))
    (name,) = target.call.tensors
    groups = Groups({name: ("batch", "length")}, {"batch": 2, "length": 64}, {name: {}})
    return prove(target, groups, {"batch": batch, "length": length}, Budget(120)), groups


def region(**spans: tuple[int, int, int]) -> Region:
    return Region(
        spans={name: [Span(low=low, high=high, step=step)] for name, (low, high, step) in spans.items()},
        basis="sampled",
    )


def proof_with(*, proven: list[Region], sampled: list[Region]) -> Proof:
    proof, _ = proof_of(range(1, 3), range(64, 65))
    return Proof(proven, [], sampled, proof.decided_by_values, points=1, proven=1, refused=0, failed=0, uncovered=0)


def test_sizes_of_which_there_are_no_inputs_are_not_called() -> None:
    proof, _ = proof_of(range(1, 17), range(1, 129))
    # The second input is as long as what the first one leaves of 100.
    groups = Groups({"x": ("batch", "length"), "y": ("batch", "-1*length+100")}, {"batch": 2, "length": 64}, {"x": {}})

    called = border_sizes(proof, groups, [], is_baked=False, parameters=0)

    assert called
    assert all(sizes["length"] <= 100 for sizes in called)


def test_the_ends_of_what_is_proven_are_called() -> None:
    proof, groups = proof_of(range(1, 17), range(1, 129))

    called = border_sizes(proof, groups, [], is_baked=False, parameters=0)

    assert {"batch": 16, "length": 128} in called
    assert {"batch": 1, "length": 128} in called
    assert all(is_proven(sizes, proof) for sizes in called)


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] > 100 else x + x


def test_both_sides_of_a_threshold_in_the_code_are_called() -> None:
    proof, groups = proof_of(range(1, 17), range(1, 129), Branches())

    lengths = {
        sizes["length"] for sizes in border_sizes(replace(proof, borders=[]), groups, [], is_baked=False, parameters=0)
    }

    assert {100, 101} <= lengths


def test_symbols_have_their_largest_sizes_apart_where_a_call_of_both_takes_long() -> None:
    proof, groups = proof_of(range(1, 257), range(1, 1025))

    called = border_sizes(proof, groups, [], is_baked=False, parameters=0)

    assert all(sizes["batch"] * sizes["length"] <= 2**14 for sizes in called)
    assert {256, 1024} <= {size for sizes in called for size in sizes.values()}


def test_the_ends_of_a_region_that_is_not_proven_for_all_values_are_called_apart_too() -> None:
    proof = proof_with(proven=[], sampled=[region(batch=(1, 256, 1), length=(2, 1024, 1))])

    assert doubtful_sizes(proof, groups_of(2, 64), []) == [
        {"batch": 1, "length": 2},
        {"batch": 256, "length": 2},
        {"batch": 1, "length": 1024},
    ]


@pytest.mark.parametrize(
    ("proven", "small"),
    [
        ((1, 1024, 1), 32),
        ((7, 1024, 7), 35),
        ((100, 1024, 1), 100),
        ((224, 224, 1), 224),
        ((225, 1024, 1), 224),  # the example is not proven
    ],
)
def test_smaller_sizes_stand_for_those_that_are_proven_with_them(proven: tuple[int, int, int], small: int) -> None:
    proof = proof_with(proven=[region(batch=(1, 8, 1), length=proven)], sampled=[])

    assert stand_in_sizes(proof.regions, {"batch": 2, "length": 224}, 32) == {"batch": 2, "length": small}
    assert stand_in_sizes(proof.regions, {"batch": 2, "length": 224}, 500) == {"batch": 2, "length": 224}


def test_a_largest_size_that_several_runs_have_is_called_once_beside_small_ones() -> None:
    proof, groups = proof_of(range(1, 257), range(1, 1025))
    largest = {"batch": 256, "length": 1024}
    ends = [({"batch": 2, "length": 2}, largest), ({"batch": 3, "length": 2}, largest)]

    called = border_sizes(
        replace(proof, borders=ends, thresholds=[], refutations=[]), groups, [], is_baked=False, parameters=0
    )

    assert [(sizes["batch"], sizes["length"]) for sizes in called] == [(2, 2), (256, 2), (2, 1024), (3, 2)]
