"""Sizes: which other sizes the artifact is right for, and the line that baked one."""

from collections.abc import Callable

import torch

from tests.tracehouse.check.targets import make_retraceable
from tracehouse.check.graphs.baked_sizes import BakedSize, find_baked_sizes
from tracehouse.check.graphs.find_size_groups import find_size_groups
from tracehouse.check.graphs.size_tests import SizeTest, run_calls, run_size_tests
from tracehouse.check.target import Target
from tracehouse.differential.budget import Budget
from tracehouse.eager.model import LoadedModel
from tracehouse.spec.trace_spec import WantedSizes

Load = Callable[..., LoadedModel]


def tried(target: Target, **wanted: WantedSizes) -> tuple[list[SizeTest], list[BakedSize]]:
    budget = Budget(60)
    groups = find_size_groups(target, {}, budget)
    found = run_size_tests(target, groups, wanted, budget)
    return found, find_baked_sizes(target, groups, found, budget)


def test_a_model_that_is_right_at_every_size_agrees_at_all(load: Load) -> None:
    arguments = torch.randint(0, 10, (2, 5)), torch.ones(2, 8), torch.randn(2, 3, 8)
    found, baked = tried(make_retraceable(load("takes_rows_and_a_mask"), *arguments))
    assert baked == []
    assert {one.outcome for one in found} == {"agrees"}
    assert {one.sizes["seq"] for one in found} > {1, 2, 3, 4, 6, 17}
    assert any(one.sizes["batch"] != 2 and one.sizes["seq"] != 5 for one in found)


def test_a_size_that_the_trace_keeps_is_told_with_its_line(load: Load) -> None:
    _, (baked,) = tried(make_retraceable(load("loops_over_its_rows"), torch.randn(2, 5)))
    assert baked.symbols == ("n0",)
    assert baked.line is not None
    assert baked.line.source == "for column in range(x.shape[1]):"
    assert baked.right == []
    assert baked.counterexample.sizes["n0"] != 5
    assert baked.counterexample.is_wrong


def test_a_branch_far_from_the_example_is_found_by_what_it_compares(load: Load) -> None:
    _, baked = tried(make_retraceable(load("makes_numbers_of_sizes"), torch.randn(2, 5)))
    lines = {one.symbols: one.line.source for one in baked if one.line}
    assert lines == {("batch",): "if x.shape[0] > 100:", ("n0",): "columns = int(x.shape[1])"}
    branch = next(one for one in baked if one.symbols == ("batch",))
    assert [wrong["batch"] for wrong in branch.wrong] == [101]
    assert 100 in [right["batch"] for right in branch.right]


class LimitsWhileTraced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-50, 50) if torch.jit.is_tracing() else x


def test_values_that_were_tried_at_another_size_are_tried_at_the_examples() -> None:
    target = make_retraceable(LoadedModel(LimitsWhileTraced()), torch.randn(2, 5))
    groups = find_size_groups(target, {}, Budget(60))
    larger = target.call.with_tensors({"x": torch.full((3, 5), 100.0)})
    tests = run_calls(target, groups, [({**groups.example, "batch": 3}, larger)], Budget(60))
    (baked,) = find_baked_sizes(target, groups, tests, Budget(60))

    assert baked.by_values is not None
    assert {tuple(one.shape) for one in baked.by_values.tensors.values()} == {(2, 5)}


def test_only_sizes_that_are_wanted_are_tried(load: Load) -> None:
    wanted = WantedSizes(low=4, high=16, step=4)
    found, _ = tried(make_retraceable(load("makes_numbers_of_sizes"), torch.randn(4, 5)), batch=wanted)
    assert {one.sizes["batch"] for one in found} == {4, 8, 12, 16}


def test_sizes_that_eager_refuses_are_no_fault(load: Load) -> None:
    found, baked = tried(make_retraceable(load("wants_multiples_of_eight"), torch.randn(1, 3, 16, 16)))
    assert baked == []
    assert {one.sizes["height"] for one in found if one.agrees} >= {8, 16, 24}


def test_what_there_was_no_time_for_is_said(load: Load) -> None:
    target = make_retraceable(load("loops_over_its_rows"), torch.randn(2, 5))
    groups = find_size_groups(target, {}, Budget(60))
    budget = Budget(0)
    assert run_size_tests(target, groups, {}, budget) == []
    assert budget.left_out() == ["more sizes of batch, n0 were not tried"]
