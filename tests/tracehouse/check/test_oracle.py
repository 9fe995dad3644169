"""The oracle: it finds the line that reads what an earlier call left, and the line that draws a random number."""

from collections.abc import Callable

import pytest
import torch

from tests.tracehouse.check.targets import make_retraceable
from tracehouse.check.graphs.find_size_groups import find_size_groups
from tracehouse.check.graphs.size_tests import run_size_tests
from tracehouse.differential.budget import Budget
from tracehouse.eager.model import LoadedModel
from tracehouse.introspection import user_lines

Load = Callable[..., LoadedModel]


def source_of(line: user_lines.Line | None) -> str:
    assert line is not None
    return line.source


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("pads_to_the_longest_so_far", "self.longest = max(self.longest, x.shape[1])"),
        ("counts_calls_in_a_global", "calls += 1"),
        ("caches_its_mask_in_its_class", "if size not in Net.masks:"),
    ],
)
def test_the_line_that_reads_what_a_call_left_is_found(load: Load, name: str, source: str) -> None:
    target = make_retraceable(load(name), torch.ones(2, 3))
    assert source_of(target.eager.find_state_line(target.call)) == source


def test_the_line_that_has_python_draw_is_found(load: Load) -> None:
    target = make_retraceable(load("draws_a_constant"), torch.ones(2, 2))
    assert source_of(target.eager.find_draw_line(target.call)) == "drawn = torch.tensor([random.random(), 1.0])"


def test_a_model_that_draws_nothing_has_no_such_line(load: Load) -> None:
    target = make_retraceable(load("refuses_negatives"), torch.ones(2, 3))
    assert target.eager.find_draw_line(target.call) is None


def test_a_call_of_another_size_that_changes_later_answers_is_noticed(load: Load) -> None:
    target = make_retraceable(load("pads_to_the_longest_so_far"), torch.ones(2, 3))
    budget = Budget(60)
    found = run_size_tests(target, find_size_groups(target, {}, budget), {}, budget)
    assert [one.aftereffect.what for one in found if one.aftereffect is not None]


def test_a_call_that_is_refused_leaves_the_copy_to_be_used_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_retraceable(load("refuses_negatives"), torch.ones(2, 3))
    made = []
    copy_module = LoadedModel.copy_module
    monkeypatch.setattr(LoadedModel, "copy_module", lambda model: made.append(model) or copy_module(model))
    for _ in range(4):
        with pytest.raises(Exception, match="raised"):
            target.eager.answer(target.call.with_tensors({"x": -torch.ones(2, 3)}))
    assert len(made) <= 2  # the first one that refuses is asked for the example's answer as well
