"""Values: what a trace keeps of its example's values, and of what lies outside the model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from tests.tracehouse.check.targets import make_retraceable
from tracehouse.check.graphs.baked_values import BakedValue, find_baked_values
from tracehouse.check.observe import observe
from tracehouse.differential.budget import Budget
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.torchscript.trace import Retrace, Retraced

Load = Callable[..., LoadedModel]


def baked(model: LoadedModel, *args: torch.Tensor) -> list[BakedValue]:
    return find_baked_values(make_retraceable(model, *args), Budget(60))


def test_a_branch_on_values_is_blamed_and_shown(load: Load) -> None:
    (found,) = baked(load("branches_on_data"), torch.ones(2, 3))
    assert (found.cause, found.confirmed) == ("values", True)
    assert found.line is not None
    assert found.line.source.startswith("if ")


def test_a_number_that_is_drawn_at_random_differs_from_trace_to_trace(load: Load) -> None:
    (found,) = baked(load("draws_a_constant"), torch.ones(2, 2))
    assert found.cause == "again"


def test_a_model_that_reads_no_value_has_none_baked_in(load: Load) -> None:
    assert (
        baked(load("takes_rows_and_a_mask"), torch.randint(0, 10, (2, 5)), torch.ones(2, 8), torch.randn(2, 3, 8)) == []
    )


def test_values_that_eager_refuses_are_no_fault(load: Load) -> None:
    assert baked(load("refuses_negatives"), torch.ones(2, 3)) == []


def test_a_trace_that_was_watched_is_the_second_one_if_its_graph_is_the_artifacts(load: Load) -> None:
    # Three traces are made on other values, and none where a second one differs.
    for model, causes, traces in [(LoadedModel(torch.nn.ReLU()), [], 3), (load("draws_a_constant"), ["again"], 1)]:
        target = make_retraceable(model, torch.ones(2, 2))
        assert target.retrace is not None
        retrace, traced = target.retrace, list[Call]()
        seen = observe(target, Budget(60))

        def count(call: Call, within: Any, retrace: Retrace = retrace, traced: list[Call] = traced) -> Retraced:
            traced.append(call)
            return retrace(call, within)

        found = find_baked_values(replace(target, retrace=count), Budget(60), seen)

        assert [one.cause for one in found] == causes
        assert len(traced) == traces
