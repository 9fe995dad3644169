"""Symbolic layouts: how tensors without values lie in memory, by the expressions of their sizes and strides alone.

The answers hold for all sizes, but that a dim whose size is 1 may have another stride. What torch does with a tensor
that is not laid out as a new one may depend on that. So answers about such a tensor put one condition on its sizes: a
symbol is not 1.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch

from tracehouse.check.prove.symbols import (
    assume_not_one,
    find_ratio,
    have_same_expression,
    is_fake,
    may_become_one,
    value_now,
)

# An attribute of tensors without values: whether they are contiguous, whatever the sizes.
_IS_CONTIGUOUS = "_is_contiguous_at_all_sizes"
# By number of dims: the order in which the dims of images and of volumes lie whose channels are the innermost.
_CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def is_laid_out_as_new(tensor: torch.Tensor) -> bool:
    """Whether each stride is the one that a new contiguous tensor of these sizes has."""
    return any(
        all(
            have_same_expression(stride, expected)
            for _, stride, expected in _dims_with_strides(tensor, least, range(tensor.dim()))
        )
        for least in (0, 1)
    )


def note_contiguous(tensor: torch.Tensor) -> None:
    """Note that a tensor without values is contiguous, whatever the sizes."""
    setattr(tensor, _IS_CONTIGUOUS, True)


def forget_contiguous(tensor: torch.Tensor) -> None:
    """Forget whether the tensor is contiguous, because an operator changes its layout."""
    vars(tensor).pop(_IS_CONTIGUOUS, None)


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether the tensor is contiguous; if it has no values, whatever the sizes.

    A dim of size 1 may have another stride than in a new tensor. Then torch may lay a result out otherwise where
    another size is 1, so that no symbol is 1 is a condition.
    """
    if not is_fake(tensor):
        return tensor.is_contiguous()
    known: bool | None = vars(tensor).get(_IS_CONTIGUOUS)
    if known is None:
        fills = _fills_memory_in(tensor, range(tensor.dim()))
        known = fills and (is_laid_out_as_new(tensor) or _has_no_size_of_one(tensor))
        setattr(tensor, _IS_CONTIGUOUS, known)
    return known


def lies_in_order(tensor: torch.Tensor) -> bool:
    """Whether the dims lie in memory in their order, perhaps with gaps, as a slice of the channels of an image does.

    An elementwise operator's result is contiguous then (`TensorIteratorBase::reorder_dimensions` in torch's
    TensorIterator.cpp).
    """
    return is_contiguous(tensor) or (
        is_fake(tensor) and _lies_in(tensor, range(tensor.dim())) and _has_no_size_of_one(tensor)
    )


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether the dims of a tensor without values lie in memory without gaps, in any order."""
    return is_contiguous(tensor) or (
        is_fake(tensor) and _fills_memory_in(tensor, _order_now(tensor)) and _has_no_size_of_one(tensor)
    )


def suggests_channels_last(tensor: torch.Tensor) -> bool:
    """Whether the channels of images are innermost in memory, perhaps with gaps (`suggest_memory_format` in torch)."""
    if tensor.dim() != 4 or not is_fake(tensor) or type(tensor.shape[1]) is not int or tensor.shape[1] < 2:
        return False
    return _lies_in(tensor, _CHANNELS_LAST[4]) and _has_no_size_of_one(tensor)


def strides_of_elementwise_result(tensor: torch.Tensor) -> Sequence[Any] | None:
    """Return the strides of what an operator gives that computes each element of a tensor without values by itself.

    They are the same for an operator on several tensors of one layout. Return None where it takes torch to find them,
    as where a size may be 1: then the tensor may be contiguous after all. The cases are those of
    `TensorIteratorBase::compute_fast_setup_type` in torch's TensorIterator.cpp.
    """
    if any(map(may_become_one, tensor.shape)) or not _has_no_size_of_one(tensor):
        return None
    for order in (range(tensor.dim()), _CHANNELS_LAST.get(tensor.dim(), ())):
        if order and _fills_memory_in(tensor, order):
            return _new_strides(tensor, order)
    return tensor.stride() if fills_its_memory(tensor) else strides_beside_a_number(tensor)


def strides_beside_a_number(tensor: torch.Tensor) -> Sequence[Any] | None:
    """Return the strides of what an operator gives that computes each element from a number too.

    Return None where it takes torch to find them (`TensorIteratorBase::reorder_dimensions`).
    """
    order = _order_now(tensor)
    is_known = is_fake(tensor) and _lies_in(tensor, order) and _has_no_size_of_one(tensor)
    return _new_strides(tensor, order) if is_known else None


def _order_now(tensor: torch.Tensor) -> Sequence[int]:
    """Return the dims in the order in which they lie in memory at the sizes at which the case began."""
    lengths = [(value_now(stride), value_now(size)) for stride, size in zip(tensor.stride(), tensor.shape, strict=True)]
    return sorted(range(tensor.dim()), key=lambda place: lengths[place], reverse=True)


def _lies_in(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether the dims lie in memory in this order, the innermost last, perhaps with gaps."""
    if not order or not is_one(tensor.stride()[order[-1]]):
        return False
    sizes, strides = tensor.shape, tensor.stride()
    return all(_reaches(strides[outer], strides[inner], sizes[inner]) for outer, inner in pairwise(order))


def _reaches(stride: Any, inner_stride: Any, inner_size: Any) -> bool:
    """Whether a stride is as long as all elements of the dim inside, of whose size torch may have taken 0 for 1."""
    ratio = find_ratio(stride, inner_stride * inner_size)
    if ratio is None:
        ratio = find_ratio(stride, inner_stride * torch.sym_max(inner_size, 1))
    return ratio is not None and ratio >= 1


def _fills_memory_in(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether the dims lie in memory in this order, the innermost last, without gaps; a dim of size 1 lies anywhere."""
    # Strides do not matter where a size is 0, and torch may compute them as if it were 1.
    return any(all(_has_stride(*dim) for dim in _dims_with_strides(tensor, least, order)) for least in (0, 1))


def _new_strides(tensor: torch.Tensor, order: Sequence[int]) -> list[Any]:
    """Return the strides of a new tensor of the same sizes whose dims lie in memory in this order."""
    strides = [expected for *_, expected in _dims_with_strides(tensor, 1, order)]
    return [strides[[*reversed(order)].index(place)] for place in range(tensor.dim())]


def strides_of_view(tensor: torch.Tensor, sizes: Sequence[Any]) -> list[Any] | None:
    """Return the strides of the tensor's view in other sizes; None where it takes torch to find them.

    The steps are those of `computeStride` in torch's TensorUtils.cpp. From the last dim on, dims that lie in memory one
    after the other are a chunk, and the view's dims must fill it.
    """
    if not _has_no_size_of_one(tensor):
        return None
    old_sizes, old_strides = tensor.shape, tensor.stride()
    strides: list[Any] = [None] * len(sizes)
    left = len(sizes)  # how many of the view's dims have no stride yet
    elements, base = 1, old_strides[-1] if old_strides else 1  # of the chunk
    for place in reversed(range(len(old_sizes))):
        elements = elements * old_sizes[place]
        if place and (is_one(old_sizes[place - 1]) or have_same_expression(old_strides[place - 1], elements * base)):
            continue
        viewed: Any = 1
        while left and (is_one(sizes[left - 1]) or not have_same_expression(viewed, elements)):
            left -= 1
            strides[left] = viewed * base
            viewed = viewed * sizes[left]
        if not have_same_expression(viewed, elements):
            return None
        elements, base = 1, old_strides[place - 1]
    return None if left else strides


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Whether images without values lie in memory channel by channel, so that a convolution lays its result out so too.

    With oneDNN, and floats of 32 bits, that holds for all sizes (`mkldnn_conv_use_channels_last` and
    `thnn_conv_use_channels_last` in torch's ConvUtils.h). Without, another kernel may be chosen for some of them.
    """
    if not is_fake(tensor) or tensor.dim() != 4 or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        return False
    # torch takes no tensor for one that lies so whose only image has a smaller stride than all its channels together.
    return (
        torch.backends.mkldnn.is_available()
        and suggests_channels_last(tensor)
        and _fills_memory_in(tensor, _CHANNELS_LAST[4])
    )


def _has_no_size_of_one(tensor: torch.Tensor) -> bool:
    """Whether no size that is a symbol is 1; that is a condition then."""
    return all(map(assume_not_one, tensor.shape))


def _has_stride(size: Any, stride: Any, expected: Any) -> bool:
    return is_one(size) or have_same_expression(stride, expected)


def _dims_with_strides(tensor: torch.Tensor, least: int, order: Sequence[int]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each dim's size, its stride, and the stride it has in a tensor whose dims lie in memory in this order.

    The latter counts a size below `least` as `least`. The innermost dim comes first.
    """
    sizes, strides = tensor.shape, tensor.stride()
    expected: Any = 1
    for place in reversed(order):
        size = sizes[place]
        yield size, strides[place], expected
        expected = expected * (torch.sym_max(size, least) if least else size)


def is_one(size: Any) -> bool:
    """Whether the size is the number 1, and no symbol."""
    return type(size) is int and size == 1
