"""The fast paths of torch's encoder layers, and the padding masks whose values choose between them.

With its fast path, nn.TransformerEncoder looks at the values of its padding mask. If each row ends in its padding, it
computes with nested tensors, and puts zeros at padded positions; if not, it computes all positions. A trace keeps one
of the two ways. Without fast paths there is one way for all masks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

# By these functions nn.TransformerEncoder looks at a mask: whether its rows end in their padding, and where they end.
_LOOKS_AT_MASKS = ("_nested_tensor_from_mask_left_aligned", "_nested_tensor_from_mask")

Masks = list[torch.Tensor]  # of booleans, a row for each sequence: whether a position is padded


def turn_off() -> None:
    """Turn the fast paths off in this process."""
    torch.backends.mha.set_fastpath_enabled(False)


@contextmanager
def record_masks() -> Iterator[Masks]:
    """Record the padding masks whose values choose a path."""
    masks: Masks = []

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        def record(source: torch.Tensor, keep: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            masks.append(keep.logical_not())
            return function(source, keep, *args, **kwargs)

        return record

    originals = {name: getattr(torch, name) for name in _LOOKS_AT_MASKS}
    for name, original in originals.items():
        setattr(torch, name, recording(original))
    try:
        yield masks
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)


@contextmanager
def turned_on() -> Iterator[Masks]:
    """Turn the fast paths on, and record the padding masks whose values choose one."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(True)
    try:
        with record_masks() as masks:
            yield masks
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def padding_as_zeros() -> Iterator[Masks]:
    """Put at the padded end of each row what the fast path of nn.TransformerEncoder puts there if all padding is at the
    end. Record the padding masks."""
    masks: Masks = []
    original = torch.nn.TransformerEncoder.forward

    def forward(
        self: torch.nn.TransformerEncoder,
        src: torch.Tensor,
        mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        is_causal: bool | None = None,
    ) -> torch.Tensor:
        output = original(self, src, mask, src_key_padding_mask, is_causal)
        is_nested = self.use_nested_tensor and not self.training and mask is None and src.dim() == 3
        if src_key_padding_mask is None or not is_nested:
            return output
        mask_of_padding = src_key_padding_mask.bool()
        masks.append(mask_of_padding)
        is_end = mask_of_padding.flip(1).cumprod(1).flip(1).bool()
        zeros = torch.zeros_like(output)
        return torch.where(is_end.unsqueeze(-1), zeros if self.norm is None else self.norm(zeros), output)

    torch.nn.TransformerEncoder.forward = forward  # type: ignore[method-assign]
    try:
        yield masks
    finally:
        torch.nn.TransformerEncoder.forward = original  # type: ignore[method-assign]
