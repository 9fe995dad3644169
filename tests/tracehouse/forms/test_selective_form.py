"""A form for usual values, or for some shapes: all others are answered as saved."""

from typing import Any

import numpy as np
import pytest
import torch

from tracehouse.forms.selective_form import SelectiveForm
from tracehouse.forms.usual_max import INTEGER_MAX, usual_max
from tracehouse.tensors.tensor import Datatype, Tensor

NAN, INF = float("nan"), float("inf")
FLOAT_MAX = 250.0


@torch.jit.script
def saved(x: torch.Tensor, y: torch.Tensor) -> str:
    return "as saved"


@torch.jit.script
def form(x: torch.Tensor, y: torch.Tensor) -> str:
    return "in the form"


class Answers:
    def __init__(self, forward: Any) -> None:
        self.forward = forward


def new_form(**limits: Any) -> Any:
    return SelectiveForm(Answers(saved), Answers(form), **limits).forward  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_what_is_not_finite_is_answered_as_saved(dtype: torch.dtype, value: float) -> None:
    usual = torch.ones(3, 5, dtype=dtype)
    odd = usual.clone()
    odd[1, 2] = value
    answer = new_form(float_max=FLOAT_MAX)

    assert answer(usual, usual) == "in the form"
    assert answer(usual, odd) == "as saved"
    assert answer(odd, y=usual) == "as saved"
    assert answer(usual, y=usual) == "in the form"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
@pytest.mark.parametrize("sign", [-1, 1])
def test_what_is_huge_is_answered_as_saved(dtype: torch.dtype, sign: int) -> None:
    answer = new_form(float_max=FLOAT_MAX)
    largest = torch.tensor([0, sign * (FLOAT_MAX if dtype.is_floating_point else INTEGER_MAX)], dtype=dtype)

    assert answer(largest, largest) == "in the form"
    assert answer(largest, largest + sign) == "as saved"


@pytest.mark.parametrize(
    ("value", "usual"),
    [
        (torch.tensor([-(2**63)]), False),
        (torch.tensor([True, False]), True),
        (torch.tensor(255, dtype=torch.uint8), True),
        (torch.ones(2, dtype=torch.complex64), False),
        (torch.ones(2, dtype=torch.float16), False),
    ],
)
def test_other_datatypes(value: torch.Tensor, usual: bool) -> None:
    assert new_form(float_max=FLOAT_MAX)(value, value) == ("in the form" if usual else "as saved")


@pytest.mark.parametrize(("value", "expected"), [(NAN, "as saved"), (1.0, "in the form")])
def test_all_that_nests_is_looked_at(value: float, expected: str) -> None:
    nested = [torch.ones(2), {"a": (torch.ones(1), torch.tensor(value))}]

    assert new_nesting_form(float_max=FLOAT_MAX)(nested, "text", None, 2.5) == expected


class Nests:
    """What torch scripts takes no nested dicts."""

    def __init__(self, answer: str) -> None:
        self.schema = None
        self.answer = answer

    def __call__(self, *args: Any) -> str:
        return self.answer


def new_nesting_form(**limits: Any) -> Any:
    return SelectiveForm(Answers(Nests("as saved")), Answers(Nests("in the form")), **limits).forward  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [{"float_max": FLOAT_MAX}, {"shapes_max": 3}])
def test_what_is_empty_is_answered_as_saved(limits: dict[str, Any]) -> None:
    answer = new_form(**limits)

    assert answer(torch.ones(2), torch.ones(1)) == "in the form"
    assert answer(torch.ones(2), torch.ones(0, 3)) == "as saved"


def test_the_first_shapes_and_datatypes_have_the_form() -> None:
    answer = new_form(shapes_max=3)
    small, large = torch.ones(1, 2), torch.ones(2, 2)

    for given in ((small, small), (large, small), (small.double(), small)):
        assert answer(*given) == "in the form"
    assert answer(small, large) == "as saved"
    assert answer(large * NAN, small) == "in the form"


def test_usual_is_a_hundred_times_what_the_golden_cases_have() -> None:
    def floats(*values: float) -> Tensor:
        return Tensor("x", Datatype.FP32, (len(values),), np.array(values, "<f4").tobytes())

    ids = Tensor("ids", Datatype.INT64, (1,), np.array([10**6], "<i8").tobytes())

    assert usual_max([]) == usual_max([ids, floats(0.25), floats()]) == 100
    assert usual_max([floats(1, -8), floats(2, NAN, INF)]) == 800
    assert usual_max([floats(1, -3e38)]) == 1e6
