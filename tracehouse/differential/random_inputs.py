"""Random inputs: the example's inputs with other values, drawn after the artifact is fixed.

They are drawn late, so that whoever made the artifact could not prepare for them. They have values like the example's,
and its shapes or others that the caller asks for, so that a model which accepts the example probably accepts them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.differential import example_patterns
from tracehouse.tensors.tensor import Tensor, array, array_bytes

# The standard deviation by which values are moved, relative to each value, so that they stay near the example. Chosen.
_NEAR = 0.1

Values = NDArray[Any]
Shape = Sequence[int]
Shapes = Mapping[str, Shape]  # by the tensors' names
ValueBounds = tuple[int, int]  # the smallest and the largest integer
Draw = Callable[[Values, np.random.Generator], Values]


def draw_rounds(example: Sequence[Tensor], rng: np.random.Generator) -> Iterator[list[Tensor]]:
    """Yield lists of inputs without end, with the example's datatypes and shapes and other values.

    Nothing is yielded if the example has no values.
    """
    values = [array(tensor.datatype, tensor.data) for tensor in example]
    if not any(flat.size for flat in values):
        return
    while True:
        for draw in _PLANS:
            with np.errstate(over="ignore", invalid="ignore"):  # numbers near the largest may overflow
                drawn = [_with_values(tensor, draw(flat, rng)) for tensor, flat in zip(example, values, strict=True)]
            if any(one.data != tensor.data for one, tensor in zip(drawn, example, strict=True)):
                yield drawn


def draw_sized(
    example: Sequence[Tensor],
    shapes: Shapes,
    draw_number: int,
    rng: np.random.Generator,
    within: Mapping[str, ValueBounds] | None = None,
) -> list[Tensor]:
    """Return inputs of these shapes, given by name. Their values are the example's in other places, varied by a plan.

    `draw_number` chooses the plan; successive numbers go through all plans in turn. If `within` has a range for an
    integer input, the plan that draws uniformly draws from that range.
    """
    draw, bounds = _PLANS[draw_number % len(_PLANS)], within or {}
    with np.errstate(over="ignore", invalid="ignore"):
        return [_draw_sized(tensor, shapes[tensor.name], draw, rng, bounds.get(tensor.name)) for tensor in example]


def tile(example: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
    """Return the example repeated or cut off in each dim to these shapes, given by name. Values keep their order."""
    return [_tile(tensor, shapes[tensor.name]) for tensor in example]


def keep_patterns(example: Sequence[Tensor], drawn: Sequence[Tensor]) -> list[Tensor]:
    """Return drawn inputs, changed such that they are sorted, say, if the example's are."""
    return [_keep_pattern(tensor, one) for tensor, one in zip(example, drawn, strict=True)]


def draw_near(inputs: Sequence[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """Return the inputs with floats that lie near theirs, and with their other values."""
    return [_with_values(one, _draw_near(array(one.datatype, one.data), rng)) for one in inputs]


def fill_with(tensor: Tensor, value: int) -> Tensor:
    """Return a tensor of the same datatype and shape with this value everywhere."""
    values = array(tensor.datatype, tensor.data)
    return _with_values(tensor, np.full_like(values, value))


def _keep_pattern(example: Tensor, drawn: Tensor) -> Tensor:
    own, values = (array(one.datatype, one.data).reshape(one.shape) for one in (example, drawn))
    return _with_values(drawn, np.ascontiguousarray(example_patterns.keep_patterns(own, values)).reshape(-1))


def _with_values(tensor: Tensor, values: Values) -> Tensor:
    return _with_shape(tensor, tensor.shape, values)


def _with_shape(tensor: Tensor, shape: Shape, values: Values) -> Tensor:
    return Tensor(tensor.name, tensor.datatype, tuple(shape), array_bytes(tensor.datatype, values))


def _draw_sized(
    tensor: Tensor, shape: Shape, draw: Draw, rng: np.random.Generator, bounds: ValueBounds | None
) -> Tensor:
    own = array(tensor.datatype, tensor.data)
    count = prod(shape)
    if not own.size:  # without values, an example says nothing of their kind
        return _with_shape(tensor, shape, np.zeros(count, own.dtype))
    values = own[rng.integers(0, own.size, count)]
    if bounds is not None and draw is _draw_uniform and tensor.datatype.is_integer:
        values = rng.integers(bounds[0], bounds[1], count, dtype=own.dtype, endpoint=True)
    elif count:
        values = draw(values, rng)
    return _with_shape(tensor, shape, np.sort(values) if _are_offsets(tensor, own) else values)


def _tile(tensor: Tensor, shape: Shape) -> Tensor:
    own = array(tensor.datatype, tensor.data)
    # Cut off before anything is repeated: 256 rows of a picture of one pixel never are 256 pictures.
    values = own.reshape(tensor.shape)[tuple(slice(size) for size in shape)]
    for dim, size in enumerate(shape):
        if not values.shape[dim]:
            return _with_shape(tensor, shape, np.zeros(prod(shape), values.dtype))
        values = np.take(values, np.arange(size) % values.shape[dim], axis=dim)
    flat = np.ascontiguousarray(values).reshape(-1)
    return _with_shape(tensor, shape, np.sort(flat) if _are_offsets(tensor, own) else flat)


def _are_offsets(tensor: Tensor, values: Values) -> bool:
    """Whether a 1-d tensor has integers that ascend from 0, as offsets do.

    With offsets out of order, some operators read memory outside their tensors.
    """
    if not tensor.datatype.is_integer or len(tensor.shape) != 1 or values.size < 2:
        return False
    return bool(values.flat[0] == 0 and (np.diff(values.reshape(-1)) >= 0).all())


def _resample(values: Values, rng: np.random.Generator) -> Values:
    """Draw from the example's own values, so that each stays a legal one."""
    return values[rng.integers(0, values.size, values.size)] if values.size else values


def _shuffle(values: Values, rng: np.random.Generator) -> Values:
    return values[rng.permutation(values.size)]


def _draw_centred(values: Values, rng: np.random.Generator) -> Values:
    """Draw floats of the example's magnitude and of both signs."""
    if not _is_float(values):
        return values
    mean, spread = _mean_and_spread(values)
    return _floats(rng.standard_normal(values.size) * float(np.hypot(mean, spread)), values)


def _draw_normal(values: Values, rng: np.random.Generator) -> Values:
    """Draw floats with the example's mean and spread."""
    if not _is_float(values):
        return values
    mean, spread = _mean_and_spread(values)
    return _floats(rng.standard_normal(values.size) * spread + mean, values)


def _draw_near(values: Values, rng: np.random.Generator) -> Values:
    """Draw floats beside the example's own, for a model that takes few others."""
    if not _is_float(values):
        return values
    return _floats(values.astype(np.float64) * (1 + _NEAR * rng.standard_normal(values.size)), values)


def _draw_uniform(values: Values, rng: np.random.Generator) -> Values:
    """Draw values between the smallest and the largest."""
    if not values.size:
        return values
    if values.dtype == np.bool_:
        return rng.integers(0, 2, values.size).astype(np.bool_)
    if _is_float(values):
        finite = _finite(values)
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        share = rng.random(values.size)
        return _floats(low * (1 - share) + high * share, values)
    low, high = _integer_range(values)
    return rng.integers(low, high, values.size, dtype=values.dtype, endpoint=True)


def _integer_range(values: Values) -> tuple[int, int]:
    """Return the smallest and the largest integer. If they are equal, the range gets one neighbour: towards 0, or 1."""
    low, high = int(values.min()), int(values.max())
    if low != high:
        return low, high
    return (low - 1, high) if low > 0 else (low, high + 1)


def _mean_and_spread(values: Values) -> tuple[float, float]:
    finite = _finite(values)
    if not finite.size:
        return 0.0, 1.0
    mean, spread = float(finite.mean()), float(finite.std())
    return mean, spread or abs(mean) or 1.0


def _finite(values: Values) -> NDArray[np.float64]:
    wide = values.astype(np.float64)
    return wide[np.isfinite(wide)]


def _floats(wide: NDArray[np.float64], like: Values) -> Values:
    most = np.finfo(like.dtype).max
    return np.clip(wide, -most, most).astype(like.dtype)


def _is_float(values: Values) -> bool:
    return np.issubdtype(values.dtype, np.floating)


# First come the plans whose inputs a model probably accepts and which show most, because a slow model gets only a few.
_PLANS: list[Draw] = [_draw_centred, _resample, _draw_uniform, _draw_normal, _draw_near, _shuffle]
