"""Value ranges: the smallest and the largest integers that a model accepts."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tracehouse.check.targets import make_target
from tracehouse.check.probe.value_ranges import ValueRangeResult, find_value_ranges
from tracehouse.check.size_groups import Groups
from tracehouse.contract.input_spec import ValueRange
from tracehouse.differential.budget import Budget

IDS = torch.tensor([[3, 9, 5], [1, 2, 7]])
ROWS = Groups({"x": ("batch", "seq")}, {"batch": 2, "seq": 3}, {})


class Model(nn.Module):
    """A model whose forward calls `does`."""

    def __init__(self, does: Callable[..., Any], rows: int = 100) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 4)
        self.does = does

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.does(self, x)


class OfTwo(Model):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.does(self, x, y)


def find_ranges(
    does: Callable[..., Any], *args: torch.Tensor, groups: Groups | None = None, rows: int = 100
) -> ValueRangeResult:
    kind = OfTwo if len(args) == 2 else Model
    return find_value_ranges(make_target(kind(does, rows), *(args or (IDS,))), groups, Budget(20))


def of_x(does: Callable[..., Any], *args: torch.Tensor, **options: Any) -> tuple[int | None, int | None] | None:
    known = find_ranges(does, *args, **options).ranges.get("x")
    return None if known is None else (known.low, known.high)


def test_ids_end_with_the_vocabulary() -> None:
    values = find_ranges(lambda model, x: model.table(x), groups=ROWS)

    assert values.ranges == {"x": ValueRange(low=0, high=99, basis="tested")}
    assert values.bounds == {"x": (0, 99)}


@pytest.mark.parametrize("rows", [10, 11, 12, 1000, 30522])
def test_the_end_is_found_exactly(rows: int) -> None:
    assert of_x(lambda model, x: model.table(x), rows=rows) == (0, rows - 1)


def test_an_end_that_is_no_weights_size_is_found_too() -> None:
    assert of_x(lambda model, x: torch.arange(777.0)[x.abs()]) == (-776, 776)
    assert of_x(lambda model, x: functional.one_hot(x, 57)) == (0, 56)


def test_an_index_counts_from_the_end_too() -> None:
    assert of_x(lambda model, x: model.table.weight[x]) == (-100, 99)


def test_a_validation_is_an_end_that_the_artifact_has_not() -> None:
    def checked(model: Model, x: torch.Tensor) -> torch.Tensor:
        assert int(x.max()) < 50
        return model.table(x)

    assert of_x(checked) == (0, 49)


def test_integers_that_are_reckoned_with_have_no_end() -> None:
    values = find_ranges(lambda model, x: x * 2.0)

    assert values.ranges == {}
    assert values.bounds == {"x": (-(2**63), 2**63 - 1)}


def test_a_range_may_have_one_end() -> None:
    assert of_x(lambda model, x: model.table(x.clamp(max=20))) == (0, None)


def test_each_input_has_its_own() -> None:
    values = find_ranges(lambda model, x, y: model.table(x) * functional.one_hot(y, 4), IDS, IDS.clamp(max=3))

    assert {path: (known.low, known.high) for path, known in values.ranges.items()} == {"x": (0, 99), "y": (0, 3)}


def test_a_place_within_a_length_has_no_end_of_its_own() -> None:
    places = torch.tensor([[0, 2, 1], [1, 2, 0]])

    assert of_x(lambda model, x: torch.arange(float(x.shape[1]))[x], places, groups=ROWS) is None
    assert of_x(lambda model, x: torch.arange(float(x.shape[1]))[x], places) == (-3, 2)


def test_an_end_that_another_input_sets_is_none() -> None:
    def below(model: Model, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert int(x.max()) <= int(y.max())
        return x * 2.0

    assert of_x(below, torch.tensor([1, 2]), torch.tensor([7, 7])) is None


def test_an_end_that_depends_on_the_place_is_none() -> None:
    def rising(model: Model, x: torch.Tensor) -> torch.Tensor:
        assert bool((x.diff() >= 0).all())
        return x * 2.0

    assert of_x(rising, torch.tensor([1, 2, 5])) is None


def test_an_artifact_that_is_wrong_at_an_end_is_reported_and_claims_nothing() -> None:
    def special(model: Model, x: torch.Tensor) -> torch.Tensor:
        answer = model.table(x)
        return answer * 2 if int(x.max()) == 99 else answer

    values = find_ranges(special)

    assert [name for name, _ in values.differing] == ["probe: 'x' all 99"]
    assert values.ranges == {}


def test_an_integer_that_decides_how_much_is_computed_has_no_range() -> None:
    assert of_x(lambda model, x: torch.zeros(int(x.sum())), torch.tensor([2, 3])) is None
    assert of_x(lambda model, x: sum((x * 1.0 for _ in range(int(x[0]))), x), torch.tensor([2, 3])) is None
    assert of_x(lambda model, x: x * 1.0 + sum(range(int(x[0]))), torch.tensor([2, 3])) is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_an_index_has_its_range_in_every_datatype(dtype: torch.dtype) -> None:
    assert of_x(lambda model, x: model.table(x.long()), IDS.to(dtype)) == (None if dtype is torch.uint8 else 0, 99)


def test_tensors_without_integers_have_no_range() -> None:
    for tensor in (torch.ones(2), torch.ones(2, dtype=torch.bool), torch.ones(0, dtype=torch.int64)):
        assert find_ranges(lambda model, x: x * 2.0, tensor) == ValueRangeResult()


def test_nothing_is_tried_where_an_operator_checks_nothing() -> None:
    tried: list[int] = []

    def packed(model: Model, x: torch.Tensor) -> torch.Tensor:
        tried.append(int(x.max()))
        return nn.utils.rnn.pack_padded_sequence(torch.ones(2, 9, 1), x, batch_first=True).data

    assert find_ranges(packed, torch.tensor([9, 3])) == ValueRangeResult()
    assert max(tried) == 9


def test_without_time_nothing_is_claimed_and_that_is_reported() -> None:
    budget = Budget(0)

    assert (
        find_value_ranges(make_target(Model(lambda model, x: model.table(x)), IDS), None, budget) == ValueRangeResult()
    )
    assert budget.left_out() == ["the range of the integers in 'x' was not searched for"]


def test_a_model_that_sleeps_on_other_integers_takes_no_longer_than_the_budget() -> None:
    def sleeps(model: Model, x: torch.Tensor) -> torch.Tensor:
        if int(x.max()) > 9:
            time.sleep(60)
        return model.table(x)

    budget = Budget(1)
    values = find_value_ranges(make_target(Model(sleeps), IDS), None, budget)

    assert values.ranges == {}
