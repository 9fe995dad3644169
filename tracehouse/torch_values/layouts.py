"""Layouts: what a tensor is besides its size, datatype, device and values, and copies with or without it.

Strides, an offset into its memory, a class of its own, a pending negation, and what it has of gradients
belong to it. An inference request has none of these: its tensors are plain.
"""

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# A copy has no more unused elements between and before the tensor's own than this, and this many times as many as it
# has of its own: a column of a large table would otherwise take the memory of the whole table. Chosen.
_UNUSED_MAX = 2**20
_TIMES = 16


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor is as those of a request are: contiguous, of no other class, without gradient."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and tensor.storage_offset() == 0
        and not (tensor.requires_grad or tensor.is_neg() or tensor.is_conj())
        and tensor._base is None
    )


def copy_plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain copy of the tensor's values."""
    detached = tensor.detach()
    if tensor.layout != torch.strided:  # sparse: whoever reads the datatypes refuses it
        return detached.clone()
    if not _wraps_others(detached):
        detached = detached.as_subclass(torch.Tensor)
    return detached.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def copy_laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that is laid out as the tensor is, without unused memory if there is far too much of it.

    What requires a gradient is a leaf in the copy if it is one itself, and else the result of an operator.
    """
    if tensor.layout != torch.strided or _wraps_others(tensor):
        return tensor.clone()
    copied = _copy_memory(tensor.detach().as_subclass(torch.Tensor).resolve_conj())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copied, tensor.requires_grad)
    copied = copied.as_subclass(type(tensor))
    if not tensor.requires_grad:
        return copied
    with torch.enable_grad():
        leaf = copied.requires_grad_()
        return leaf if tensor.is_leaf else leaf.view_as(leaf)


def _wraps_others(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no memory of its own, but tensors inside it that have."""
    return bool(is_traceable_wrapper_subclass(tensor))


def _copy_memory(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides and offset, in memory of its own."""
    if tensor.is_neg():
        return torch._neg_view(_copy_memory(torch._neg_view(tensor)))
    if tensor.is_contiguous() and tensor.storage_offset() == 0 and tensor._base is None:
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    most = _TIMES * tensor.numel() + _UNUSED_MAX
    if not tensor.numel() or span > most:
        return tensor.clone()
    offset = min(tensor.storage_offset(), most)
    memory = tensor.new_empty(offset + span)
    copied = memory.as_strided(tensor.shape, tensor.stride(), offset)
    memory[offset:].copy_(tensor.as_strided((span,), (1,), tensor.storage_offset()))
    return copied
