"""Compiled methods, called with what a contract hands over."""

from collections.abc import Callable
from typing import Any

import torch

from tracehouse.eager.model import LoadedModel
from tracehouse.torch_values import script_calls

Load = Callable[..., LoadedModel]
X = torch.ones(2)


def call(module: Any, **handed_over: Any) -> Any:
    return script_calls.call_method(module.forward, module.forward.schema, handed_over)


def test_parameters_that_are_given_by_name_alone_are(load: Load) -> None:
    module = torch.jit.script(load("takes_keywords_alone").module)

    assert call(module, x=X, times=2, loud=True).tolist() == [4.0, 4.0]


def test_what_comes_after_a_default_that_is_left_is_given_by_name(load: Load) -> None:
    module = torch.jit.script(load("has_an_odd_default").module)

    assert call(module, x=X, scale=5.0).tolist() == [25.0, 25.0]


def test_a_trace_may_name_its_parameters_otherwise() -> None:
    module = torch.jit.trace(torch.nn.Identity(), X)

    assert call(module, whatever=X).tolist() == [1.0, 1.0]
