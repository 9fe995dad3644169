"""Probes: the example's inputs with other values, of the same shapes and datatypes.

One hand-picked input proves nothing (x * 2 equals x - 1 at -1), so each kind of value is varied in more than one way.
What a probe asks may be senseless to the model, which may then refuse it; but where it answers, so must the artifact.
"""

from collections.abc import Callable, Iterator

import torch

from workers.tracing.call import Call

# torch can do little with its larger unsigned integers.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}

Tensors = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]


def probes(example: Call, *, searching: bool) -> Iterator[tuple[str, Call]]:
    """Variations of a call by their names, the likeliest to tell first, those that change nothing left out.

    `searching` is for a model that reads values in Python, and so may branch on any of them: on single elements, on one
    input alone, on extremes, on inputs that are equal. One that reads none computes the same with all values.
    """
    tried = [example.tensors]
    for name, varied in _variations(example.tensors, searching=searching):
        if not any(_equal(varied, earlier) for earlier in tried):
            tried.append(varied)
            yield f"probe: {name}", example.with_tensors(varied)


def _variations(tensors: Tensors, *, searching: bool) -> Iterator[tuple[str, Tensors]]:
    for name, change in _CHANGES:
        yield name, _changed(tensors, change)
    if not searching:
        return
    yield "like inputs made equal", _made_equal(tensors)
    for name, change in _SEARCHING_CHANGES:
        yield name, _changed(tensors, change)
    if len(tensors) == 1:
        return
    for name, change in [*_ALONE_CHANGES, *_CHANGES, *_SEARCHING_CHANGES]:
        for path, tensor in tensors.items():
            yield f"{path!r} alone, {name}", {**tensors, path: change(tensor)}


def _changed(tensors: Tensors, change: Change) -> Tensors:
    return {path: change(tensor) for path, tensor in tensors.items()}


def _made_equal(tensors: Tensors) -> Tensors:
    alike: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    return {path: alike.setdefault((tensor.dtype, tensor.shape), tensor).clone() for path, tensor in tensors.items()}


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
    return tensor.new_full(tensor.shape, _extremes(tensor)[0])


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, _extremes(tensor)[1])


def _other_constant(tensor: torch.Tensor) -> torch.Tensor:
    """Integers that are all alike: zeros become ones and ones zeros, as in a mask, and others one more."""
    smallest, largest = _extremes(tensor)
    return tensor.new_full(tensor.shape, _beside(tensor, largest)) if smallest == largest else tensor.clone()


def _one_less(tensor: torch.Tensor) -> torch.Tensor:
    smallest, largest = _extremes(tensor)
    constant = smallest == largest and smallest - 1 >= torch.iinfo(tensor.dtype).min
    return tensor.new_full(tensor.shape, smallest - 1) if constant else tensor.clone()


def _beside(tensor: torch.Tensor, value: int) -> int:
    if value in (0, 1):
        return 1 - value
    return value + 1 if value < torch.iinfo(tensor.dtype).max else value - 1


def _at(place: int, other: Callable[[torch.Tensor, int | float | bool], int | float | bool]) -> Change:
    """One element alone changed, to what `other` makes of its tensor and its value."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        if tensor.numel():
            flat = changed.flatten()
            value = flat[place].item()
            flat[place] = other(tensor, value)
            changed = flat.reshape(tensor.shape)
        return changed

    return change


def _other_integer(tensor: torch.Tensor, value: int | float | bool) -> int:
    """Within the range that was seen, where there is one."""
    smallest, largest = _extremes(tensor)
    if smallest == largest:
        return _beside(tensor, smallest)
    return smallest if value == largest else largest


def _other_number(tensor: torch.Tensor, value: int | float | bool) -> int | float | bool:
    if tensor.is_floating_point():
        return value + 1.0
    return not value if _is_bool(tensor) else _other_integer(tensor, value)


def _extremes(tensor: torch.Tensor) -> tuple[int, int]:
    """By numpy, for torch has no extremes of its larger unsigned integers."""
    values = tensor.cpu().numpy()
    return (int(values.min()), int(values.max())) if tensor.numel() else (0, 0)


def _is_bool(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.bool


def _equal(some: Tensors, others: Tensors) -> bool:
    return all(_alike(tensor, others[path]) for path, tensor in some.items())


def _alike(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(tensor, other) or (
        tensor.is_floating_point() and bool(torch.isclose(tensor, other, rtol=0, atol=0, equal_nan=True).all())
    )


_CHANGES: list[tuple[str, Change]] = [
    ("negated", _floats(torch.neg)),
    ("zeros", _floats(torch.zeros_like)),
    ("reversed order", _reversed),
    ("other constants", _integers(_other_constant)),
    ("booleans flipped", _booleans(torch.logical_not)),
]
_SEARCHING_CHANGES: list[tuple[str, Change]] = [
    ("ten times as large", _floats(lambda tensor: tensor * 10)),
    ("smallest integers", _integers(_smallest)),
    ("largest integers", _integers(_largest)),
    ("booleans all true", _booleans(torch.ones_like)),
    ("first element changed", _at(0, _other_number)),
    ("last element changed", _at(-1, _other_number)),
    ("huge", _floats(lambda tensor: tensor * 1e4)),
    ("tiny", _floats(lambda tensor: tensor * 1e-4)),
    ("one less", _integers(_one_less)),
    ("one not a number", _floats(_at(0, lambda *_: float("nan")))),
    ("one infinite", _floats(_at(0, lambda *_: float("inf")))),
    ("one infinite and negative", _floats(_at(-1, lambda *_: float("-inf")))),
]
# Inputs that were equal are not so any more, whatever they hold.
_ALONE_CHANGES: list[tuple[str, Change]] = [("first element changed", _at(0, _other_number))]
