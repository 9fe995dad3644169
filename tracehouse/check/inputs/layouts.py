"""Layouts: the example's own values, laid out in memory as no request brings them.

What is served gets contiguous tensors that need no gradient. A difference on others is worth telling, and no more.
"""

from collections.abc import Callable, Iterator

import torch

from tracehouse.eager.call import Call


def vary_layouts(example: Call) -> Iterator[tuple[str, Call]]:
    """Calls by their names, for each layout that one of the inputs can have."""
    tensors = example.tensors
    for name, laid_out in _LAYOUTS:
        varied = {path: laid_out(tensor) for path, tensor in tensors.items()}
        if any(_is_other(varied[path], tensor) for path, tensor in tensors.items()):
            yield f"probe: inputs {name}", example.with_tensors(varied)


def _is_other(tensor: torch.Tensor, example: torch.Tensor) -> bool:
    return (tensor.stride(), tensor.requires_grad) != (example.stride(), example.requires_grad)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The last dim is the slowest."""
    return tensor.movedim(-1, 0).contiguous().movedim(0, -1) if tensor.dim() > 1 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _requiring_grad(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


# Those alone that a copy keeps, for each side gets one.
_LAYOUTS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("in another order in memory", _transposed),
    ("with channels last", _channels_last),
    ("requiring gradients", _requiring_grad),
]
