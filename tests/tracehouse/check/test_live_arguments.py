"""The arguments of `tracehouse.check`: what cannot be used is refused in one sentence that says what to give."""

from typing import Any

import numpy as np
import pytest
import torch

import tracehouse

X = torch.ones(2, 4)
ROWS = {"input": {0: "rows"}}


class Script(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize(
    ("kind", "words", "arguments"),
    [
        (TypeError, "dynamic is ['input']: write dynamic as", {"dynamic": ["input"]}),
        (TypeError, "dynamic['input'] is [0]: write dynamic as", {"dynamic": {"input": [0]}}),
        (TypeError, "dynamic['input']['0'] is 3: write dynamic as", {"dynamic": {"input": {0: 3}}}),
        (ValueError, "dynamic['input']['-1'] is '-1': write dynamic as", {"dynamic": {"input": {-1: "n"}}}),
        (ValueError, "dynamic['input']['0'] is '2**n': write dynamic as", {"dynamic": {"input": {0: "2**n"}}}),
        (TypeError, "sizes is ['rows']: write sizes as", {"dynamic": ROWS, "sizes": ["rows"]}),
        (TypeError, "sizes['rows'] is 8: write sizes as", {"dynamic": ROWS, "sizes": {"rows": 8}}),
        (TypeError, "sizes['rows'] is (1, 2.5): write sizes as", {"dynamic": ROWS, "sizes": {"rows": (1, 2.5)}}),
        (ValueError, "sizes['rows'] is (8, 1): write sizes as", {"dynamic": ROWS, "sizes": {"rows": (8, 1)}}),
        (ValueError, "sizes['rows'] is range(3, 1): a range", {"dynamic": ROWS, "sizes": {"rows": range(3, 1)}}),
        (ValueError, "sizes names 'batch', which is no symbol of dynamic", {"sizes": {"batch": (1, 8)}}),
        (ValueError, "budget_s is 0: give seconds", {"budget_s": 0}),
        (ValueError, "budget_s is nan: give seconds", {"budget_s": float("nan")}),
        (TypeError, "budget_s is '15': give seconds", {"budget_s": "15"}),
        (ValueError, "budget is 'large': give", {"budget": "large"}),
        (ValueError, "budget is 'deep', and budget_s is 9.0: give only one", {"budget": "deep", "budget_s": 9.0}),
        (ValueError, "tolerance is -1.0: give a number", {"tolerance": -1.0}),
        (TypeError, "seed is 1.5: give a whole number", {"seed": 1.5}),
        (ValueError, "seed is -1: give a whole number", {"seed": -1}),
        (TypeError, "strict is 'no': give True or False", {"strict": "no"}),
        (TypeError, "check_inputs is a Tensor: give a list of calls", {"check_inputs": X}),
        (TypeError, "check_inputs[0][0] is a NumPy array", {"check_inputs": [(np.ones((2, 4)),)]}),
        (TypeError, "example_kwarg_inputs is a Tensor: give a dict", {"example_kwarg_inputs": X}),
        (TypeError, "example_kwarg_inputs['y'] is a NumPy array", {"example_kwarg_inputs": {"y": np.ones(2)}}),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(kind: type[Exception], words: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(kind) as refused:
        tracehouse.check(torch.nn.Linear(4, 2), X, **arguments)

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("argument", ["example_inputs", "check_inputs", "samples", "sizes", "dynamic", "seed"])
def test_lists_without_end_are_refused(argument: str) -> None:
    endless: list[Any] = []
    for _ in range(5000):
        endless = [endless]
    given = {"sizes": {"rows": endless}, "dynamic": {"input": endless}}.get(argument, endless)
    arguments = {"example_inputs": X, "dynamic": ROWS, argument: given}

    with pytest.raises(TypeError, match=argument) as refused:
        tracehouse.check(torch.nn.Linear(4, 2), **arguments)
    assert not isinstance(refused.value, RecursionError)


def test_numbers_of_numpy_are_numbers() -> None:
    spans = {"sizes": {"rows": (np.int64(1), np.int64(8))}, "seed": np.int64(3)}
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), X, dynamic=ROWS, budget_s=1.0, **spans)  # type: ignore[arg-type]

    assert [(span.low, span.high) for span in report.contract.method("forward").regions[0].spans["rows"]] == [(1, 8)]


def test_a_numpy_array_as_example_is_refused() -> None:
    with pytest.raises(TypeError, match=r"example_inputs\[0\] is a NumPy array: hand in a tensor"):
        tracehouse.check(torch.nn.Linear(4, 2), np.ones((2, 4)))


def test_without_positional_inputs_the_example_may_be_none() -> None:
    report = tracehouse.check(torch.nn.Linear(4, 2).eval(), None, example_kwarg_inputs={"input": X}, budget_s=1.0)

    assert report.contract.method("forward").inputs[0].name == "input"


def test_an_argument_that_does_not_exist_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="seconds"):
        tracehouse.check(torch.nn.Linear(4, 2), X, seconds=3)  # type: ignore[call-arg]


def test_a_method_of_a_script_module_is_refused() -> None:
    with pytest.raises(TypeError, match="hand in the ScriptModule itself"):
        tracehouse.check(torch.jit.script(Script()).forward, X)
