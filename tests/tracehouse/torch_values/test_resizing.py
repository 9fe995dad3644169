"""Resizing keeps the values of a tensor, and needs no more memory than the larger of the two shapes."""

import torch

from tracehouse.torch_values.resizing import is_mask, resize


def test_many_rows_of_few_columns_are_made_of_one_row_of_many() -> None:
    """All columns of all rows would be a terabyte."""
    row = torch.arange(2**20).reshape(1, -1)

    resized = resize(row, [2**18, 2], 0)

    assert resized.shape == (2**18, 2)
    assert torch.equal(resized[-1], torch.tensor([0, 1]))


def test_a_mask_stays_a_mask_and_what_only_begins_like_one_gets_noise() -> None:
    mask = torch.tensor([[1.0, 1.0, 0.0]]).repeat(1, 100)
    begins_like_one = torch.cat([mask, torch.tensor([[0.5]])], 1)

    assert is_mask(mask)
    assert torch.equal(resize(mask, [2, 300], 0), mask.repeat(2, 1))
    assert not is_mask(begins_like_one)
    assert not torch.equal(resize(begins_like_one, [1, 301], 0), begins_like_one)
