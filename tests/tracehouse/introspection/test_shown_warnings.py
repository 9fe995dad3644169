"""What a person sees of the warnings of a model, and of torch, while the model is checked."""

import warnings

import torch

import tracehouse


class Warns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            warnings.warn("mine", stacklevel=1)
        return torch.nn.functional.softmax(x)


def test_each_line_that_warns_is_shown_once_and_no_line_of_ours() -> None:
    """Also where our own code calls torch in the place of the model, and though a check changes the filters."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        tracehouse.check(Warns(), torch.ones(2, 4))

    lines = {one.lineno: str(one.message) for one in shown if one.filename == __file__}
    assert len([one for one in shown if one.category is UserWarning]) == len(lines) == 2
    assert sorted(text[:8] for text in lines.values()) == ["Implicit", "mine"]


def test_what_was_shown_in_one_check_is_shown_in_the_next() -> None:
    for _ in range(2):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            tracehouse.check(Warns(), torch.ones(2, 4))
        assert "mine" in [str(one.message) for one in shown]
