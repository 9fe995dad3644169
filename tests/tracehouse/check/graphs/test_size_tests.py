"""Size tests: how many calls of other sizes are made before a proof is tried, and which are left for after it."""

from collections import Counter

import torch

from tests.tracehouse.check.targets import make_target
from tracehouse.check.graphs.size_tests import SizeTest, run_first_size_tests, run_size_tests, run_witnesses_at
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.differential.budget import Budget

BUDGET_S = 120.0


class AnySize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Width(torch.nn.Module):
    """Its trace is right for one width alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / int(x.shape[1])


def target_of(module: torch.nn.Module) -> tuple[Target, Groups]:
    target = make_target(module, torch.ones(4, 6))
    (name,) = target.call.tensors
    return target, Groups({name: ("batch", "width")}, {"batch": 4, "width": 6}, {name: {}})


def outcomes(tests: list[SizeTest], groups: Groups) -> Counter[tuple[str, ...]]:
    return Counter((*one.changed_symbols(groups), one.outcome) for one in tests)


def test_two_sizes_of_each_symbol_agree_before_a_proof() -> None:
    target, groups = target_of(AnySize())

    tests = run_first_size_tests(target, groups, {}, Budget(BUDGET_S))

    assert outcomes(tests, groups) == {("batch", "agrees"): 2, ("width", "agrees"): 2}


def test_a_symbol_is_called_at_more_sizes_while_the_artifact_is_wrong() -> None:
    target, groups = target_of(Width())

    tests = run_first_size_tests(target, groups, {}, Budget(BUDGET_S))

    assert outcomes(tests, groups) == {("batch", "agrees"): 2, ("width", "differs"): 3}


def test_the_calls_after_a_proof_leave_out_what_is_known_and_what_is_settled() -> None:
    target, groups = target_of(AnySize())
    first = run_first_size_tests(target, groups, {}, Budget(BUDGET_S))

    after = run_size_tests(
        target, groups, {}, Budget(BUDGET_S), known=first, is_settled=lambda sizes: sizes["width"] <= 10
    )

    known = [dict(one.sizes) for one in first]
    assert after
    assert all(one.sizes["width"] > 10 for one in after)
    assert not [one for one in after if dict(one.sizes) in known]


def test_nothing_is_called_where_all_is_settled() -> None:
    target, groups = target_of(AnySize())

    assert run_size_tests(target, groups, {}, Budget(BUDGET_S), is_settled=lambda _: True) == []


class ExactByLuck(torch.nn.Module):
    """Its trace is off by some roundings: `always`, or only where a value is above a threshold."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self._always = always

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.jit.is_tracing():
            return x * 3
        off = 1 + 2.0**-17 * (1 - 2 * (torch.arange(x.shape[1]) % 2))
        return torch.where(x.amax() > (0.0 if self._always else 0.97), x * 3 * off, x * 3)


def test_rounding_that_differs_on_one_draw_of_values_is_chance() -> None:
    chance, fault = (target_of(ExactByLuck(always=always)) for always in (False, True))

    by_chance = run_first_size_tests(*chance, {}, Budget(BUDGET_S))
    each_time = run_first_size_tests(*fault, {}, Budget(BUDGET_S))

    assert {one.outcome for one in by_chance} == {"agrees"}
    assert {one.outcome for one in each_time} == {"differs"}


class TakesFew(torch.nn.Module):
    """Its trace is wrong on negative values. Eager refuses values that are a little smaller than the example's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not 0.97 <= float(x.abs().amax()) <= 2:
            raise ValueError("neither small nor large values are taken")
        return torch.where(x < 0, x * 3, x) if torch.jit.is_tracing() else x * 1


def test_an_error_is_none_the_less_one_if_eager_refuses_other_draws() -> None:
    target, groups = target_of(TakesFew())

    tests = run_witnesses_at(target, groups, [groups.example], Budget(BUDGET_S))

    assert "differs" in {one.outcome for one in tests}
