"""Thresholds: probes are aimed at both sides of the numbers that a model compares its values with.

This is boundary value analysis (Myers, 1979) on statistics of the inputs.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Protocol

import torch

from tracehouse.check.inputs.probes import drop_repeats
from tracehouse.eager.call import Call

# Distances from a threshold, relative to its size: near, yet distinct from it in the coarsest datatype (bfloat16 has 8
# bits of significand), and far.
_NEAR, _FAR = 2.0**-6, 1.0
_THRESHOLDS_MAX = 32  # a choice

Statistic = Callable[[torch.Tensor], torch.Tensor]


class Threshold(Protocol):
    """A number that a model compares a value or a size with."""

    @property
    def number(self) -> float:
        """The number, in the unit of what is compared with it."""
        ...


def aim_probes(example: Call, thresholds: Iterable[Threshold]) -> Iterator[tuple[str, Call]]:
    """Yield named variations of a call, in which a statistic of an input lies below, on or above a threshold.

    Statistics are single elements, extremes, means, sums and norms. Shapes and datatypes stay as they are. All inputs
    and thresholds take turns. Thresholds that are infinite or NaN are left out, and so are those after the first 32.
    """
    numbers = [*dict.fromkeys(float(one.number) for one in thresholds if math.isfinite(one.number))][:_THRESHOLDS_MAX]
    tensors = example.tensors
    turns = [_aim(path, tensor, number) for number in numbers for path, tensor in tensors.items() if tensor.numel()]
    in_turns = (one for turn in zip_longest(*turns) for one in turn if one is not None)
    return drop_repeats(example, ((name, {**tensors, path: varied}) for name, path, varied in in_turns))


_Variation = tuple[str, str, torch.Tensor]  # its name, the path of the input that is changed, and its tensor


def _aim(path: str, tensor: torch.Tensor, number: float) -> Iterator[_Variation]:
    variations = _aim_floats(tensor, number) if tensor.is_floating_point() else _aim_integers(tensor, number)
    for what, varied in variations:
        yield f"aimed at {number:.6g}, {path!r} {what}", path, varied


def _aim_floats(tensor: torch.Tensor, number: float) -> Iterator[tuple[str, torch.Tensor]]:
    size = max(1.0, abs(number))
    near = [number + size * _NEAR, number - size * _NEAR, number]
    values = tensor.detach().double().nan_to_num(0.0, 0.0, 0.0)
    for target in near:
        yield f"filled with {target:.6g}", _convert(tensor, torch.full_like(values, target))
    for name, statistic in _SHIFTED.items():
        for target in near:
            yield f"shifted to {name} {target:.6g}", _convert(tensor, _shift(values, statistic, target))
    for place, name in ((0, "first"), (-1, "last")):
        for target in near:
            yield f"with {target:.6g} as its {name} element", _convert(tensor, _set_element(values, place, target))
    for name, statistic in _SCALED.items():
        was = float(statistic(values))
        for target in near:
            if was and math.isfinite(factor := target / was):
                yield f"scaled to {name} {target:.6g}", _convert(tensor, values * factor)
    for target in (number + size * _FAR, number - size * _FAR):
        yield f"filled with {target:.6g}", _convert(tensor, torch.full_like(values, target))


def _aim_integers(tensor: torch.Tensor, number: float) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield named integers or booleans. For booleans, only the number of true elements can be aimed."""
    if abs(number) > torch.iinfo(torch.int64).max // 2:
        return
    around = sorted({math.floor(number) - 1, math.floor(number), math.ceil(number), math.ceil(number) + 1})
    count = tensor.numel()
    shares = [math.floor(number * count) + away for away in (-1, 0, 1)] if 0 < number < 1 else []
    for nonzero in [*around, *shares]:
        if 0 <= nonzero <= count:
            yield f"with {nonzero} elements and zeros", _keep_first(tensor, nonzero)
    if tensor.dtype is torch.bool:
        return
    kind = torch.iinfo(tensor.dtype)
    for target in around:
        if kind.min <= target <= kind.max:
            yield f"filled with {target}", torch.full_like(tensor, target)
            yield f"with {target} as its first element", _set_element(tensor, 0, target)
            yield f"with {target} as its last element", _set_element(tensor, -1, target)
            yield f"with {target} and zeros", _set_element(torch.zeros_like(tensor), 0, target)


def _keep_first(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first `count` elements with ones in place of zeros, and zeros after them, in the tensor's shape."""
    places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    ones = torch.ones_like(tensor)
    return torch.where(places < count, torch.where(tensor == 0, ones, tensor), torch.zeros_like(tensor))


def _set_element(tensor: torch.Tensor, place: int, value: float) -> torch.Tensor:
    flat = tensor.flatten().clone()
    flat[place] = value
    return flat.reshape(tensor.shape)


def _shift(values: torch.Tensor, statistic: Statistic, target: float) -> torch.Tensor:
    """Return the values with the same number added to each, so that the statistic becomes the target."""
    share = values.numel() if statistic is torch.sum else 1  # the sum moves with each element
    return values + (target - statistic(values)) / share


def _convert(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Convert values to the tensor's datatype; values beyond its range become its largest number."""
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
