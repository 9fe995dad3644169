"""A form that is compared with the archive as saved at the first call of each shape."""

from typing import Any

import pytest
import torch

from tracehouse.forms.agreed_form import AgreedForm, FormDiffers


class Counts:
    """Gives its inputs times a factor, and counts its calls."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self.calls = 0

    def __call__(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> Any:
        self.calls += 1
        return tuple(one * self.factor for one in (*args, *kwargs.values()))


def test_each_shape_is_answered_by_both_once() -> None:
    """And numbers of this shape that are drawn."""
    saved, form = Counts(), Counts()
    agreed = AgreedForm(saved, form, tolerance=1e-4)

    for rows in (2, 3, 2, 3, 2):
        agreed.forward(torch.ones(rows), y=torch.ones(1))

    assert (saved.calls, form.calls) == (4, 7)


def test_a_small_difference_is_none() -> None:
    agreed = AgreedForm(Counts(), Counts(1 + 1e-6), tolerance=1e-4)

    first, second = (agreed.forward(torch.ones(2))[0] for _ in range(2))

    assert first.tolist() == [1.0, 1.0]  # the form as saved answers while they are compared
    assert second.tolist() != [1.0, 1.0]


def test_once_it_has_differed_it_answers_nothing() -> None:
    saved, form = Counts(), Counts()
    agreed = AgreedForm(saved, form, tolerance=1e-4)
    agreed.forward(torch.ones(2))
    form.factor = 1.5

    with pytest.raises(FormDiffers, match=r"it differs for inputs of the shapes \[3\] in 'output.0'.*this form 1.5"):
        agreed.forward(torch.ones(3))

    form.factor = 1.0
    with pytest.raises(FormDiffers):
        agreed.forward(torch.ones(2))


def test_a_call_in_which_all_forms_are_alike_does_not_hide_that_they_differ() -> None:
    agreed = AgreedForm(Counts(), Counts(2.0), tolerance=1e-4)

    with pytest.raises(FormDiffers):
        agreed.forward(torch.zeros(3), y=torch.zeros(1))


def test_what_is_drawn_draws_no_number_of_the_process() -> None:
    before = torch.get_rng_state()

    AgreedForm(Counts(), Counts(), tolerance=1e-4).forward(torch.ones(3))

    assert torch.equal(torch.get_rng_state(), before)
