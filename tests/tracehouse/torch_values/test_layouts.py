"""Layouts: plain copies, and copies that lie in memory as a tensor does."""

from collections.abc import Callable

import pytest
import torch

from tracehouse.torch_values.layouts import copy_laid_out, copy_plain, is_plain

VALUES = torch.arange(24.0).reshape(2, 3, 4)
BY_LAYOUT: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: VALUES.clone().transpose(0, 2),
    "a column": lambda: VALUES.clone()[:, :, 1],
    "a later row": lambda: VALUES.clone()[1],
    "expanded": lambda: VALUES[:1].clone().expand(5, 3, 4),
    "yet to be negated": lambda: torch._neg_view(VALUES.clone()),
    "a leaf that requires a gradient": lambda: VALUES.clone().requires_grad_(),
    "computed with gradients": lambda: VALUES.clone().requires_grad_() * 2,
    "a parameter": lambda: torch.nn.Parameter(VALUES.clone()),
    "a parameter without gradient": lambda: torch.nn.Parameter(VALUES.clone(), requires_grad=False),
}


def layout_of(tensor: torch.Tensor) -> tuple[object, ...]:
    has_history = tensor.grad_fn is not None
    own = (tensor.requires_grad, tensor.is_leaf, has_history, tensor.is_neg())
    return (type(tensor), tensor.stride(), tensor.storage_offset(), *own)


@pytest.mark.parametrize("name", BY_LAYOUT)
def test_a_copy_has_the_values_and_the_layout(name: str) -> None:
    tensor = BY_LAYOUT[name]()
    copied = copy_laid_out(tensor)

    assert torch.equal(copied, tensor)
    assert layout_of(copied) == layout_of(tensor)
    assert copied.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", BY_LAYOUT)
def test_a_plain_copy_has_the_values_alone(name: str) -> None:
    tensor = BY_LAYOUT[name]()
    copied = copy_plain(tensor)

    assert not is_plain(tensor)
    assert is_plain(copied)
    assert torch.equal(copied, tensor)


def test_a_column_of_a_large_table_is_copied_without_the_table() -> None:
    table = torch.zeros(2, 3_000_000)

    assert copy_laid_out(table[:, 0]).untyped_storage().nbytes() < 1000
