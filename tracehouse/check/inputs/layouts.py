"""Layouts: the example's own values with another layout in memory than an inference request can have.

A served artifact gets contiguous tensors that require no gradient. A difference on other layouts is reported, and does
not change the verdict.
"""

from collections.abc import Callable, Iterator

import torch

from tracehouse.differential.case_names import name_probe
from tracehouse.eager.call import Call


def vary_layouts(example: Call) -> Iterator[tuple[str, Call]]:
    """Yield a named call for each layout that changes at least one of the inputs. Shapes and values stay the same."""
    tensors = example.tensors
    for name, lay_out in _LAYOUTS:
        varied = {path: lay_out(tensor) for path, tensor in tensors.items()}
        if any(_differs(varied[path], tensor) for path, tensor in tensors.items()):
            yield name_probe(f"inputs {name}"), example.with_tensors(varied)


def _differs(tensor: torch.Tensor, example: torch.Tensor) -> bool:
    return (tensor.stride(), tensor.requires_grad) != (example.stride(), example.requires_grad)


def _transpose(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor laid out in memory with the last dim as the slowest."""
    return tensor.movedim(-1, 0).contiguous().movedim(0, -1) if tensor.dim() > 1 else tensor


def _make_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _require_grad(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_() if tensor.is_floating_point() else tensor


# Each model gets a copy of the inputs, so only layouts that survive copying are here.
_LAYOUTS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("in another order in memory", _transpose),
    ("with channels last", _make_channels_last),
    ("requiring gradients", _require_grad),
]
