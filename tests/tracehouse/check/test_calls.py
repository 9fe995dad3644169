"""Calls: what a model gets, and what is kept of a call with gradients."""

from typing import Any

import pytest
import torch

from tracehouse.check.calls import call_artifact, call_model
from tracehouse.eager.call import Call, bind
from tracehouse.eager.model import Function
from tracehouse.errors import ModelRaised


def call_of(function: Any, x: torch.Tensor) -> tuple[Function, Call]:
    module = Function(function)
    return module, bind(module, "forward", "forward", (x,), {})


def test_gradients_are_enabled_where_that_is_asked_for() -> None:
    module, call = call_of(lambda x: x + float(torch.is_grad_enabled()), torch.zeros(1))

    assert call_model(module, call, 0).outputs == 0
    assert call_model(module, call, 0, gradients=True).outputs == 1


@pytest.mark.parametrize(("length", "is_kept"), [(10, True), (100_000, False)])
def test_only_small_results_are_kept_for_a_way_back(length: int, is_kept: bool) -> None:
    alive: list[bool] = []

    def square(x: torch.Tensor) -> torch.Tensor:
        y = x.requires_grad_() * 1
        z = y * y
        alive.append(_has_saved(z.grad_fn))
        return z

    module, call = call_of(square, torch.ones(length))
    call_model(module, call, 0, gradients=True)

    assert alive == [is_kept]


def _has_saved(node: Any) -> bool:
    try:
        return node._saved_self is not None
    except RuntimeError:
        return False


def test_a_model_that_differentiates_small_results_itself_answers_with_gradients_too() -> None:
    def slope(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad((leaf * leaf).sum(), leaf)[0]

    module, call = call_of(slope, torch.ones(3))
    assert call_model(module, call, 0, gradients=True).outputs.tolist() == [2, 2, 2]

    module, large = call_of(slope, torch.ones(100_000))
    with pytest.raises(ModelRaised, match="keeps no large results"):
        call_model(module, large, 0, gradients=True)


def test_the_artifact_computes_as_the_model_with_gradients() -> None:
    layer = torch.nn.Linear(4, 4)
    traced = torch.jit.trace(layer, torch.ones(1, 4))
    call = bind(layer, "forward", "forward", (torch.ones(1, 4),), {})

    for _ in range(4):  # torch compiles anew on the third call
        answers = [call_artifact(traced, call, 0, gradients=gradients).outputs for gradients in (True, False)]
        assert torch.equal(answers[0], answers[1])
        assert not answers[0].requires_grad
