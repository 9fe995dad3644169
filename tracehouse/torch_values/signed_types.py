"""Signed types: torch has few operators for its larger unsigned integers, so their bits are taken for signed ones."""

import torch

SIGNED_TYPES = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def view_as_signed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself, or its bits as signed integers where torch has few operators for its datatype."""
    signed = SIGNED_TYPES.get(tensor.dtype)
    return tensor if signed is None else tensor.view(signed)
