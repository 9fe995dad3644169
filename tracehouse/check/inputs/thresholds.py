"""Aimed probes: inputs on both sides of the numbers that a model compares its values with."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Protocol

import torch

from tracehouse.check.inputs.probes import drop_repeats
from tracehouse.eager.call import Call

# From the number, and in its size: near, but for the coarsest of datatypes told from it, and far.
_NEAR, _FAR = 2.0**-6, 1.0
_THRESHOLDS_MAX = 32

Statistic = Callable[[torch.Tensor], torch.Tensor]


class Threshold(Protocol):
    """What a model compared a value or a size with."""

    @property
    def number(self) -> float: ...


def aim_probes(example: Call, thresholds: Iterable[Threshold]) -> Iterator[tuple[str, Call]]:
    """Variations of the call by their names: their elements, extremes, means, sums and norms fall below each number, on
    it and above it. Those of all inputs and numbers take turns."""
    numbers = [*dict.fromkeys(float(one.number) for one in thresholds if math.isfinite(one.number))][:_THRESHOLDS_MAX]
    tensors = example.tensors
    turns = [_at(path, tensor, number) for number in numbers for path, tensor in tensors.items() if tensor.numel()]
    in_turns = (found for turn in zip_longest(*turns) for found in turn if found is not None)
    return drop_repeats(example, ((name, {**tensors, path: varied}) for name, path, varied in in_turns))


_Aimed = tuple[str, str, torch.Tensor]  # what it is called, and the leaf that is changed


def _at(path: str, tensor: torch.Tensor, number: float) -> Iterator[_Aimed]:
    found = _floats(tensor, number) if tensor.is_floating_point() else _integers(tensor, number)
    for what, varied in found:
        yield f"aimed at {number:.6g}, {path!r} {what}", path, varied


def _floats(tensor: torch.Tensor, number: float) -> Iterator[tuple[str, torch.Tensor]]:
    size = max(1.0, abs(number))
    near = [number + size * _NEAR, number - size * _NEAR, number]
    values = tensor.detach().double().nan_to_num(0.0, 0.0, 0.0)
    for target in near:
        yield f"filled with {target:.6g}", _as(tensor, torch.full_like(values, target))
    for name, statistic in _SHIFTED.items():
        for target in near:
            yield f"shifted to {name} {target:.6g}", _as(tensor, _shifted(values, statistic, target))
    for place, name in ((0, "first"), (-1, "last")):
        for target in near:
            yield f"with {target:.6g} as its {name} element", _as(tensor, _with(values, place, target))
    for name, statistic in _SCALED.items():
        was = float(statistic(values))
        for target in near:
            if was and math.isfinite(factor := target / was):
                yield f"scaled to {name} {target:.6g}", _as(tensor, values * factor)
    for target in (number + size * _FAR, number - size * _FAR):
        yield f"filled with {target:.6g}", _as(tensor, torch.full_like(values, target))


def _integers(tensor: torch.Tensor, number: float) -> Iterator[tuple[str, torch.Tensor]]:
    """Booleans among them, of which a number of trues is what there is to count."""
    if abs(number) > torch.iinfo(torch.int64).max // 2:
        return
    around = sorted({math.floor(number) - 1, math.floor(number), math.ceil(number), math.ceil(number) + 1})
    count = tensor.numel()
    shares = [math.floor(number * count) + away for away in (-1, 0, 1)] if 0 < number < 1 else []
    for kept in [*around, *shares]:
        if 0 <= kept <= count:
            yield f"with {kept} elements and zeros", _kept(tensor, kept)
    if tensor.dtype is torch.bool:
        return
    kind = torch.iinfo(tensor.dtype)
    for target in around:
        if kind.min <= target <= kind.max:
            yield f"filled with {target}", torch.full_like(tensor, target)
            yield f"with {target} as its first element", _with(tensor, 0, target)
            yield f"with {target} as its last element", _with(tensor, -1, target)
            yield f"with {target} and zeros", _with(torch.zeros_like(tensor), 0, target)


def _kept(tensor: torch.Tensor, kept: int) -> torch.Tensor:
    """The first elements, as ones where they are zeros, and zeros behind them."""
    places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    ones = torch.ones_like(tensor)
    return torch.where(places < kept, torch.where(tensor == 0, ones, tensor), torch.zeros_like(tensor))


def _with(tensor: torch.Tensor, place: int, value: float) -> torch.Tensor:
    flat = tensor.flatten().clone()
    flat[place] = value
    return flat.reshape(tensor.shape)


def _shifted(values: torch.Tensor, statistic: Statistic, target: float) -> torch.Tensor:
    """The sum moves with the number of elements."""
    share = values.numel() if statistic is torch.sum else 1
    return values + (target - statistic(values)) / share


def _as(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """In its datatype; what is beyond it becomes its largest number."""
    most = torch.finfo(tensor.dtype).max
    return values.clamp(-most, most).to(tensor.dtype)


_SHIFTED: dict[str, Statistic] = {
    "the largest": torch.max,
    "the smallest": torch.min,
    "the mean": torch.mean,
    "the sum": torch.sum,
}
_SCALED: dict[str, Statistic] = {
    "the sum": torch.sum,
    "the mean": torch.mean,
    "the largest size": lambda values: values.abs().max(),
    "the norm": torch.linalg.vector_norm,
    "the mean size": lambda values: values.abs().mean(),
    "the mean square": lambda values: values.square().mean().sqrt(),
    "the spread": lambda values: values.std(correction=0),
}
