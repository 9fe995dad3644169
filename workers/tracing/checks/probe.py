"""Probes: the example's inputs with other values, of the same shapes and datatypes.

One hand-picked input proves nothing (x * 2 equals x - 1 at -1), so each kind of value is varied in more than one way.
What a probe asks may be senseless to the model, which may then refuse it; but where it answers, so must the artifact.
"""

from collections.abc import Callable, Iterator

import torch

from workers.tracing.call import Call

# torch can do little with its larger unsigned integers.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}

Change = Callable[[torch.Tensor], torch.Tensor]


def probes(example: Call) -> Iterator[tuple[str, Call]]:
    """Variations of a call by their names, those that change nothing left out."""
    tensors = example.tensors
    tried = [tensors]
    for name, change in _CHANGES:
        varied = {path: change(tensor) for path, tensor in tensors.items()}
        if not any(_equal(varied, earlier) for earlier in tried):
            tried.append(varied)
            yield f"probe: {name}", example.with_tensors(varied)


def _floats(change: Change) -> Change:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor.clone()


def _integers(change: Change) -> Change:
    # Complex tensors are none, for they have no datatype.
    return lambda tensor: tensor.clone() if tensor.is_floating_point() or _is_bool(tensor) else change(tensor)


def _booleans(change: Change) -> Change:
    return lambda tensor: change(tensor) if _is_bool(tensor) else tensor.clone()


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in other places, so that what is legal of each stays legal."""
    flat = tensor.flatten()
    signed = _SIGNED.get(tensor.dtype)
    flipped = flat.flip(0) if signed is None else flat.view(signed).flip(0).view(tensor.dtype)
    return flipped.reshape(tensor.shape)


def _smallest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, _numpy_extreme(tensor, "min"))


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, _numpy_extreme(tensor, "max"))


def _numpy_extreme(tensor: torch.Tensor, which: str) -> int:
    return int(getattr(tensor.numpy(), which)()) if tensor.numel() else 0


def _is_bool(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.bool


def _equal(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, others[path]) for path, tensor in some.items())


_CHANGES: list[tuple[str, Change]] = [
    ("negated", _floats(torch.neg)),
    ("zeros", _floats(torch.zeros_like)),
    ("ten times as large", _floats(lambda tensor: tensor * 10)),
    ("reversed order", _reversed),
    ("smallest integers", _integers(_smallest)),
    ("largest integers", _integers(_largest)),
    ("booleans flipped", _booleans(torch.logical_not)),
    ("booleans all true", _booleans(torch.ones_like)),
]
