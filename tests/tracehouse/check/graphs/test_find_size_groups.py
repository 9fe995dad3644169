"""Grouping: which dims may have other sizes, and which of them together, as eager takes them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from tests.tracehouse.check.targets import make_retraceable
from tracehouse.check.graphs.find_size_groups import find_size_groups
from tracehouse.check.graphs.size_oracle import SizeOracle
from tracehouse.check.graphs.size_tests import run_first_size_tests
from tracehouse.check.size_groups import Groups
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ModelRaised
from tracehouse.spec.trace_spec import WantedSizes

Load = Callable[..., LoadedModel]


def found(target: Target, said: dict[str, dict[str, str]] | None = None, seconds: float = 60) -> Groups:
    return find_size_groups(target, said or {}, Budget(seconds))


def rows(*, batch: int, seq: int, past: int) -> tuple[Any, ...]:
    return torch.randint(0, 10, (batch, seq)), torch.ones(batch, past + seq), torch.randn(batch, past, 8)


@pytest.mark.parametrize(("batch", "seq", "past"), [(2, 5, 3), (1, 5, 3), (4, 4, 4), (1, 1, 1), (2, 1, 6)])
def test_inputs_share_a_batch_and_one_is_as_long_as_two_together(load: Load, batch: int, seq: int, past: int) -> None:
    target = make_retraceable(load("takes_rows_and_a_mask"), *rows(batch=batch, seq=seq, past=past))
    groups = found(target)
    assert groups.shapes["ids"] == ("batch", "seq")
    assert groups.shapes["past"] == ("batch", "n0", 8)
    assert groups.shapes["mask"] in (("batch", "seq+n0"), ("batch", "n0+seq"))
    assert groups.example == {"batch": batch, "seq": seq, "n0": past}
    assert groups.fixed == {"ids": {}, "mask": {}, "past": {"2": "model"}}


def test_a_model_that_reads_values_is_asked_by_calls_alone(load: Load) -> None:
    target = make_retraceable(load("adds_rows_of_any_size"), torch.randn(2, 6), torch.randn(2, 12), torch.tensor(3))
    groups = found(target)
    assert groups.shapes == {"x": ("batch", "n0"), "doubled": ("batch", "2*n0"), "switch": ()}


@pytest.mark.parametrize(
    ("name", "samples", "frames", "expression"),
    [
        ("MasksFrames", 85, 7, "(n0-10)//10"),
        ("MasksSpectra", 100, 13, "(n0+8)//8"),
        ("MasksWindows", 100, 24, "(n0-4)//4"),
    ],
)
def test_a_mask_of_frames_is_as_long_as_the_sound_divided_and_rounded(
    load: Load, name: str, samples: int, frames: int, expression: str
) -> None:
    model = load("right_at_every_size", name)
    groups = found(make_retraceable(model, torch.randn(2, samples), torch.ones(2, frames)))
    assert groups.shapes == {"sound": ("batch", "n0"), "mask": ("batch", expression)}


def test_sides_that_are_to_be_multiples_have_a_step(load: Load) -> None:
    groups = found(make_retraceable(load("wants_multiples_of_eight"), torch.randn(1, 3, 32, 32)))
    assert groups.shapes["x"] == ("batch", "n0", "height", "width")
    assert groups.steps == {"height": 8, "width": 8}


def test_lengths_change_with_the_size_that_they_tell_of(load: Load) -> None:
    target = make_retraceable(load("packs_by_lengths"), torch.randn(3, 7, 4), torch.tensor([7, 5, 2]))
    groups = found(target)
    assert groups.shapes == {"x": ("batch", "seq", 4), "lengths": ("batch",)}
    assert groups.lengths == {"lengths": "seq"}
    shorter = groups.resize(target.call, {"seq": 4, "batch": 5}, 0)
    assert shorter.tensors["lengths"].tolist() == [4, 4, 4, 4, 2]
    alone = groups.resize(
        target.call.with_tensors({**target.call.tensors, "lengths": torch.tensor([5, 7, 2])}), {"seq": 1, "batch": 1}, 0
    )
    assert alone.tensors["lengths"].tolist() == [1]


def test_lengths_that_fit_larger_sizes_as_they_are_follow_to_smaller_ones(load: Load) -> None:
    model = load("right_at_every_size", "TakesTheLastOfEach")
    target = make_retraceable(model, torch.randn(3, 7, 4), torch.tensor([7, 5, 2]))
    groups = found(target)
    assert groups.shapes == {"x": ("batch", "seq", "n0"), "lengths": ("batch",)}
    assert groups.lengths == {"lengths": "seq"}


@pytest.mark.parametrize(("new", "past"), [(1, 3), (1, 5), (2, 3), (3, 3)])
def test_one_step_beside_what_is_kept_has_a_length_of_its_own(load: Load, new: int, past: int) -> None:
    model = load("right_at_every_size", "Remembers")
    groups = found(make_retraceable(model, torch.randn(2, new, 4), *(torch.randn(2, past, 4) for _ in range(2))))
    x, keys, values = (groups.shapes[name] for name in ("x", "keys", "values"))
    assert keys[:2] == values[:2] != x[:2]
    assert x[0] == keys[0] == "batch"


def test_what_the_model_takes_apart_has_two_symbols_if_both_have_one_size(load: Load) -> None:
    model = load("right_at_every_size", "MatchesTwoSets")
    groups = found(make_retraceable(model, torch.randn(3, 4), torch.randn(3, 4)))
    assert groups.shapes["x"][0] != groups.shapes["others"][0]
    assert {*groups.example.values()} == {3, 4}


def test_an_empty_past_is_a_size_and_no_row_is_none(load: Load) -> None:
    groups = found(make_retraceable(load("takes_rows_and_a_mask"), *rows(batch=2, seq=5, past=3)))
    assert groups.may_be_empty == {"seq", "n0"}


def test_a_size_that_was_too_slow_to_try_is_no_step(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    find_refusal = SizeOracle.find_refusal

    def too_slow_if_odd(oracle: SizeOracle, groups: Groups, sizes: Mapping[str, int]) -> ModelRaised | None:
        if any(size % 2 for size in sizes.values()):
            raise TooSlow(1.0)
        return find_refusal(oracle, groups, sizes)

    monkeypatch.setattr(SizeOracle, "find_refusal", too_slow_if_odd)
    target = make_retraceable(load("right_at_every_size", "WritesInPlace"), torch.randn(4, 8))
    for groups in (found(target), found(target, {"x": {"0": "n", "1": "m"}})):
        assert len(groups.symbols) == 2
        assert all(groups.step(symbol) == 1 for symbol in groups.symbols)


def test_what_is_declared_is_taken_as_it_is(load: Load) -> None:
    target = make_retraceable(load("takes_rows_and_a_mask"), *rows(batch=2, seq=5, past=3))
    groups = found(target, {"ids": {"1": "new"}, "mask": {"1": "new+old"}, "past": {"1": "old"}})
    assert groups.shapes == {"ids": (2, "new"), "mask": (2, "new+old"), "past": (2, "old", 8)}
    assert groups.fixed["past"] == {"0": "untried", "2": "untried"}
    assert groups.refusals == {}


def test_sizes_that_are_declared_and_eager_refuses_are_told_with_its_error(load: Load) -> None:
    target = make_retraceable(load("takes_rows_and_a_mask"), *rows(batch=2, seq=5, past=3))
    groups = found(target, {"ids": {"1": "seq"}})
    assert "must match the size" in str(groups.refusals["seq"].facts["message"])


@pytest.mark.parametrize("said", [{"rows": {"0": "n"}}, {"ids": {"2": "n"}}, {"ids": {"0": "n", "1": "n"}}])
def test_what_is_declared_has_to_fit_the_example(load: Load, said: dict[str, dict[str, str]]) -> None:
    target = make_retraceable(load("takes_rows_and_a_mask"), *rows(batch=2, seq=5, past=3))
    with pytest.raises(ValueError, match=r"no input|no dim|do not fit"):
        found(target, said)


def test_without_time_every_dim_is_left_untried(load: Load) -> None:
    target = make_retraceable(load("wants_multiples_of_eight"), torch.randn(1, 3, 32, 32))
    budget = Budget(0)
    groups = find_size_groups(target, {}, budget)
    assert groups.symbols == []
    assert set(groups.fixed["x"].values()) == {"untried"}
    assert budget.left_out() == ["other sizes of x were not tried"]


def test_integers_and_masks_stay_legal_where_sizes_change() -> None:
    groups = Groups({"ids": ("n",), "mask": ("n",), "x": ("n",)}, {"n": 3}, {})
    given = {"ids": torch.tensor([7, 0, 9]), "mask": torch.tensor([1.0, 0.0, 1.0]), "x": torch.tensor([0.5, 1.5, 9.0])}
    made = groups.resize(_Tensors(given), {"n": 7}, 0).tensors  # type: ignore[arg-type]
    assert made["ids"].tolist() == [7, 0, 9, 7, 0, 9, 7]
    assert made["mask"].tolist() == [1, 0, 1, 1, 0, 1, 1]
    assert made["x"].shape == (7,)
    assert made["x"].min() >= 0.5
    assert made["x"].max() <= 9
    assert made["x"][0] != made["x"][3]
    assert groups.resize(_Tensors(given), {"n": 0}, 0).tensors["ids"].shape == (0,)  # type: ignore[arg-type]


class _Tensors:
    """A call, as far as it is asked."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

    def with_tensors(self, tensors: dict[str, torch.Tensor]) -> "_Tensors":
        return _Tensors(tensors)


class Pools(torch.nn.Module):
    """It takes images of all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).mean((2, 3))


class Patches(Pools):
    """Its trace has the number of patches of its example, and eager takes sides of each 16th size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, columns = int(x.shape[2]) // 16, int(x.shape[3]) // 16
        return super().forward(x).sum(1) + x.reshape(x.shape[0], 3, rows, 16, columns, 16).sum((1, 2, 3, 4, 5))


def shapes_called(target: Target) -> list[tuple[int, ...]]:
    """Return a list that gets the shape of each call of the eager model from here on."""
    shapes: list[tuple[int, ...]] = []
    answer = target.eager.answer

    def note(call: Call, **options: Any) -> Any:
        shapes.append(tuple(call.tensors["x"].shape))
        return answer(call, **options)

    target.eager.answer = note  # type: ignore[method-assign]
    return shapes


def test_the_sizes_of_a_large_image_are_searched_on_a_smaller_one() -> None:
    target = make_retraceable(LoadedModel(Pools().eval()), torch.randn(2, 3, 160, 192))
    shapes = shapes_called(target)

    groups = found(target)

    assert groups.shapes == {"x": ("batch", 3, "height", "width")}
    assert groups.example == {"batch": 2, "height": 160, "width": 192}
    assert not groups.steps
    assert all(max(shape[2:]) < 100 for shape in shapes if shape[1] != 3)
    assert any(shape[1] != 3 for shape in shapes)
    # The artifact is compared beside the smaller sizes.
    assert {(2, 3, 65, 96), (2, 3, 64, 97)} <= {*shapes}


def test_a_large_image_stays_as_it_is_where_a_smaller_one_is_answered_wrongly() -> None:
    target = make_retraceable(LoadedModel(Patches().eval()), torch.randn(2, 3, 160, 192))
    shapes = shapes_called(target)

    groups = found(target)

    assert groups.steps == {"height": 16, "width": 16}
    assert (2, 3, 64, 96) in shapes  # tried, and given up
    assert (2, 3, 176, 192) in shapes


def test_a_call_that_was_made_to_find_the_sizes_is_not_made_again() -> None:
    target = make_retraceable(LoadedModel(Pools().eval()), torch.randn(4, 3, 20, 24))
    shapes = shapes_called(target)
    groups = found(target)
    before = len(shapes)

    tests = run_first_size_tests(target, groups, {}, Budget(60))

    assert len(shapes) == before
    assert len({*shapes}) == len(shapes)
    assert [one.changed_symbols(groups) for one in tests if one.agrees] == [
        ("batch",), ("batch",), ("height",), ("height",), ("width",), ("width",)
    ]  # fmt: skip
    assert all(one.outputs for one in tests)


def test_a_call_outside_of_the_wanted_sizes_does_not_stand_for_one_inside() -> None:
    target = make_retraceable(LoadedModel(Pools().eval()), torch.randn(1, 3, 20, 24))
    groups = found(target)

    tests = run_first_size_tests(target, groups, {"height": WantedSizes(low=8, high=16)}, Budget(60))

    assert {one.sizes["height"] for one in tests if one.changed_symbols(groups) == ("height",)} == {8, 16}
