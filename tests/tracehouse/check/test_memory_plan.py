"""The memory plan: what a check may take, and what it leaves out where that is less than it needs."""

import resource
from pathlib import Path

import pytest
import torch

import tracehouse
from tests.tracehouse.check.targets import TOLERANCE, make_target
from tracehouse.byte_units import MIB
from tracehouse.check.call_memory import record_memory
from tracehouse.check.float64_model import Float64Model
from tracehouse.check.graphs.size_tests import SizeTest, run_size_tests_at
from tracehouse.check.memory_limit import free_bytes
from tracehouse.check.memory_plan import BESIDE_BYTES, ExampleNeed, MemoryPlan, plan_memory
from tracehouse.check.size_groups import make_declared_groups
from tracehouse.check.target import Target
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call, bind
from tracehouse.findings.verdict import Verdict

MODEL, CALL = 100 * MIB, 80 * MIB


def call_of(rows: int) -> Call:
    return bind(torch.nn.ReLU(), "forward", "forward", (torch.ones(rows, 4),), {})


def plan(free: int | None) -> MemoryPlan:
    return MemoryPlan(MODEL, 2 * MODEL, {"forward": ExampleNeed(CALL, 4)}, free)


def compare_at(target: Target, rows: int, budget: Budget) -> list[SizeTest]:
    groups = make_declared_groups(target.call, {"x": {"0": "batch"}})
    return run_size_tests_at(target, groups, [{"batch": rows}], budget)


def test_a_check_needs_three_times_the_model_and_a_call_and_a_fixed_rest() -> None:
    assert plan(None).needed_bytes == 3 * (MODEL + CALL) + BESIDE_BYTES
    assert plan(None).left_out == plan(2**40).left_out == []


def test_a_model_in_half_precision_needs_five_times_its_own_bytes() -> None:
    half = plan_memory(torch.nn.Linear(64, 64).half(), None).with_example(call_of(1), 0)
    assert half.needed_bytes == 5 * half.model_bytes + BESIDE_BYTES


def test_larger_calls_are_left_out_before_answers_in_float64() -> None:
    tight = plan(2 * MODEL + 2 * CALL)
    assert tight.why_no_float64(call_of(1)) is None
    assert tight.why_no_call(call_of(4)) is None
    assert tight.why_no_call(call_of(8)) is not None
    assert [one.split(",")[0] for one in tight.left_out] == ["calls of larger sizes"]


def test_answers_in_float64_are_left_out_where_only_calls_fit() -> None:
    tight = plan(2 * MODEL)
    assert tight.why_no_float64(call_of(1)) is not None
    assert tight.why_no_call(call_of(2)) is None
    assert len(tight.left_out) == 2


def test_calls_on_the_example_are_made_however_little_is_free() -> None:
    assert plan(0).why_no_call(call_of(1)) is None


def test_a_difference_is_judged_by_the_tolerance_where_float64_does_not_fit() -> None:
    target = make_target(torch.nn.Linear(4, 4), torch.ones(1, 4))
    target.eager.memory = plan(0)
    eager, nudged = target.example, target.eager.answer(target.call.changed(lambda x: x * (1 + 1e-6)))

    compared = target.eager.compare(target.call, eager, nudged, TOLERANCE)
    assert compared.agrees
    assert compared.without_float64 == target.eager.take_lack_of_memory() is not None


def test_a_call_that_does_not_fit_is_named_and_not_made() -> None:
    target = make_target(torch.nn.ReLU(), torch.ones(1, 4))
    name = next(iter(target.call.tensors))
    target.eager.memory = plan(CALL)
    groups, budget = make_declared_groups(target.call, {name: {"0": "batch"}}), Budget(60.0)

    [made, left_out] = run_size_tests_at(target, groups, [{"batch": 1}, {"batch": 9}], budget)
    assert (made.outcome, left_out.outcome) == ("agrees", "no-memory")
    assert budget.is_cut
    assert budget.left_out() == ["a call of batch 9: a call needs about 720 MiB, and the check may take 80 MiB"]


class OnlyTheTraceFillsMemory(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum() if x.shape[0] > 1 else x.sum() + torch.zeros((x.shape[0] - 1) * 2**50).sum()


class FillsMemory(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum() + torch.zeros((x.shape[0] - 1) * 2**50).sum()


class Deep(torch.nn.Module):
    """Whose TorchScript errors have a stack of over 4000 characters before their reason."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(OnlyTheTraceFillsMemory())
        for _ in range(40):
            self.inner = torch.nn.Sequential(self.inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize("module", [OnlyTheTraceFillsMemory(), FillsMemory(), Deep()])
def test_a_call_that_runs_out_of_memory_says_nothing_against_the_trace(module: torch.nn.Module) -> None:
    target, budget = make_target(module, torch.ones(1, 4)), Budget(60.0)

    [one] = compare_at(target, 5, budget)
    assert (one.outcome, one.is_wrong) == ("no-memory", False)
    assert budget.left_out()[0].startswith("a call of batch 5")


def test_the_limit_on_addresses_is_found_without_a_view_of_the_machine() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 512 * MIB, before[1]))
    try:
        free = free_bytes()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

    assert free is not None
    assert 256 * MIB < free <= 512 * MIB


@pytest.mark.parametrize("use_kineto", [True, False])
def test_a_callers_own_profiler_is_left_alone(use_kineto: bool) -> None:
    with torch.autograd.profiler.profile(use_kineto=use_kineto):
        report = tracehouse.check(torch.nn.Linear(4, 4).eval(), torch.ones(2, 4), budget_s=30.0)

    assert report.verdict is Verdict.VERIFIED
    assert report.check.memory is not None


def test_the_copy_in_float64_is_all_that_is_made_for_an_answer_in_float64() -> None:
    """Twice the model and no third: no copy lies beside it that is not yet cast."""
    module = torch.nn.Linear(2048, 2048)
    with record_memory() as memory:
        Float64Model(module).answer(bind(module, "forward", "forward", (torch.ones(1, 2048),), {}), 0, within_s=60.0)

    model_bytes = sum(one.nbytes for one in module.parameters())
    assert memory.most_bytes is not None
    assert 2 * model_bytes <= memory.most_bytes < 2.5 * model_bytes


class HasASparseBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.eye(4).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_a_sparse_buffer_counts_as_if_it_were_dense() -> None:
    assert plan_memory(HasASparseBuffer(), None).model_bytes == 4 * 4 * 4
