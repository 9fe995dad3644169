"""Probes: the example's inputs with other values, of the same shapes and datatypes.

One hand-picked input proves nothing (x * 2 equals x - 1 at -1), so each kind of value is varied in more than one way.
A probe may make no sense to the model, which may then refuse it. Where the model answers, the artifact must agree.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import torch

from tracehouse.eager.call import Call

# torch has few operators for its larger unsigned integers, so their bits are taken for signed ones.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}

Tensors = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]
# The smallest and the largest integer that the model accepts in an input, by the path of the input, where known.
ValueBounds = Mapping[str, tuple[int, int]]

_DRAWS_DEEP = 3  # a deep search draws so many times at each scale


def generate_probes(
    example: Call, *, searching: bool, deep: bool = False, bounds: ValueBounds = MappingProxyType({}), seed: int = 0
) -> Iterator[tuple[str, Call]]:
    """Yield variations of a call with their names, the most telling first; none is equal to the example or to another.

    Shapes and datatypes stay as they are. `searching` is for a model that reads values in Python and so may branch on
    any of them: on single elements, one input alone, extremes, equal inputs. A model that reads none computes the same
    with all values. `deep` adds all other variations. Integers stay within `bounds` where given, or else near the range
    of the example's.
    """
    return drop_repeats(example, _variations(example.tensors, searching or deep, deep, bounds, seed))


def drop_repeats(example: Call, variations: Iterable[tuple[str, Tensors]]) -> Iterator[tuple[str, Call]]:
    """Yield a call for each of these variations that is equal neither to the example nor to one before it."""
    digests = {_digest(example.tensors)}
    for name, varied in variations:
        if (digest := _digest(varied)) not in digests:
            digests.add(digest)
            yield f"probe: {name}", example.with_tensors(varied)


def _variations(
    tensors: Tensors, searching: bool, deep: bool, bounds: ValueBounds, seed: int
) -> Iterator[tuple[str, Tensors]]:
    for name, change in _CHANGES:
        yield name, _changed(tensors, change)
    yield from _in_range(tensors, bounds)
    yield "random", _drawn(tensors, bounds, seed, 1.0)
    if not searching:
        return
    yield "like inputs made equal", _make_equal(tensors)
    changes = [*_SEARCHING_CHANGES, *(_DEEP_CHANGES if deep else [])]
    for name, change in changes:
        yield name, _changed(tensors, change)
    yield from _random(tensors, bounds, seed, _DRAWS_DEEP if deep else 1)
    if len(tensors) == 1:
        return
    for name, change in [*_ALONE_CHANGES, *_CHANGES, *changes]:
        for path, tensor in tensors.items():
            yield f"{path!r} alone, {name}", {**tensors, path: change(tensor)}
    if deep:
        for path in tensors:
            for name, varied in _random({path: tensors[path]}, bounds, seed, _DRAWS_DEEP):
                yield f"{path!r} alone, {name}", {**tensors, **varied}


def _in_range(tensors: Tensors, bounds: ValueBounds) -> Iterator[tuple[str, Tensors]]:
    """Yield integers at the bounds of what the model accepts: the last id of a vocabulary, and the first."""
    known = {path: tensors[path] for path in bounds if path in tensors and tensors[path].numel()}
    if not known:
        return
    for name, first, second in (("both ends", 1, 0), ("the largest", 1, 1), ("the smallest", 0, 0)):
        varied = {path: _alternate(tensor, bounds[path][first], bounds[path][second]) for path, tensor in known.items()}
        yield f"integers at {name} of their range", {**tensors, **varied}


def _alternate(tensor: torch.Tensor, first: int, second: int) -> torch.Tensor:
    """Return a tensor of this shape in which the two integers take turns."""
    flat = tensor.new_full((tensor.numel(),), second)
    flat[::2] = first
    return flat.reshape(tensor.shape)


def _random(tensors: Tensors, bounds: ValueBounds, seed: int, draws: int) -> Iterator[tuple[str, Tensors]]:
    for draw in range(1, draws + 1):
        for scale in _SCALES:
            name = f"random, {scale:g} times as large" + (f", draw {draw}" if draw > 1 else "")
            yield name, _drawn(tensors, bounds, seed + draw, scale)


def _drawn(tensors: Tensors, bounds: ValueBounds, seed: int, scale: float) -> Tensors:
    """Draw floats of both signs as large as the example's times `scale`, integers within bounds, and booleans."""
    rng = np.random.default_rng(seed)
    return {path: _draw(tensor, bounds.get(path), rng, scale) for path, tensor in tensors.items()}


def _draw(tensor: torch.Tensor, known: tuple[int, int] | None, rng: np.random.Generator, scale: float) -> torch.Tensor:
    if tensor.is_floating_point():
        most = torch.finfo(tensor.dtype).max
        values = np.asarray(rng.standard_normal(tensor.shape)) * _magnitude(tensor) * scale
        return torch.as_tensor(np.clip(values, -most, most)).to(tensor)
    low, high = (0, 1) if _is_bool(tensor) else known or find_extremes(tensor)
    kind = np.uint64 if high > torch.iinfo(torch.int64).max else np.int64
    drawn = rng.integers(low, high, tensor.shape, dtype=kind, endpoint=True)
    return torch.from_numpy(np.asarray(drawn)).to(tensor)


def _magnitude(tensor: torch.Tensor) -> float:
    """Return the root mean square of a tensor's finite numbers; 1 if they are all zero."""
    values = tensor.detach().double()
    values = values[values.isfinite()]
    return float(values.square().mean().sqrt()) or 1.0 if values.numel() else 1.0


def _changed(tensors: Tensors, change: Change) -> Tensors:
    return {path: change(tensor) for path, tensor in tensors.items()}


def _make_equal(tensors: Tensors) -> Tensors:
    """Give all inputs of the same shape and datatype the values of the first of them."""
    alike: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    return {path: alike.setdefault((tensor.dtype, tensor.shape), tensor).clone() for path, tensor in tensors.items()}


def _floats(change: Change) -> Change:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor.clone()


def _integers(change: Change) -> Change:
    # Complex tensors do not come here, because no input may have their datatype.
    return lambda tensor: tensor.clone() if tensor.is_floating_point() or _is_bool(tensor) else change(tensor)


def _booleans(change: Change) -> Change:
    return lambda tensor: change(tensor) if _is_bool(tensor) else tensor.clone()


def _reverse(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in reverse order, so that each value stays one that the model accepts."""
    flat = tensor.flatten()
    signed = _SIGNED.get(tensor.dtype)
    flipped = flat.flip(0) if signed is None else flat.view(signed).flip(0).view(tensor.dtype)
    return flipped.reshape(tensor.shape)


def _smallest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, find_extremes(tensor)[0])


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.new_full(tensor.shape, find_extremes(tensor)[1])


def _other_constant(tensor: torch.Tensor) -> torch.Tensor:
    """Change integers that are all equal: zeros to ones and ones to zeros, as in a mask, and others to one more."""
    smallest, largest = find_extremes(tensor)
    return tensor.new_full(tensor.shape, _beside(tensor, largest)) if smallest == largest else tensor.clone()


def _one_less(tensor: torch.Tensor) -> torch.Tensor:
    smallest, largest = find_extremes(tensor)
    constant = smallest == largest and smallest - 1 >= torch.iinfo(tensor.dtype).min
    return tensor.new_full(tensor.shape, smallest - 1) if constant else tensor.clone()


def _beside(tensor: torch.Tensor, value: int) -> int:
    if value in (0, 1):
        return 1 - value
    return value + 1 if value < torch.iinfo(tensor.dtype).max else value - 1


def _at(place: int, other: Callable[[torch.Tensor, int | float | bool], int | float | bool]) -> Change:
    """Return a change of one element alone, to what `other` returns for the tensor and the element's value."""

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
    """Return another integer, within the tensor's own range if its elements differ."""
    smallest, largest = find_extremes(tensor)
    if smallest == largest:
        return _beside(tensor, smallest)
    return smallest if value == largest else largest


def _other_number(tensor: torch.Tensor, value: int | float | bool) -> int | float | bool:
    if tensor.is_floating_point():
        return value + 1.0
    return not value if _is_bool(tensor) else _other_integer(tensor, value)


def find_extremes(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the smallest and the largest element; (0, 0) for an empty tensor."""
    values = tensor.cpu().numpy()  # torch has no min and max of its larger unsigned integers
    return (int(values.min()), int(values.max())) if tensor.numel() else (0, 0)


def _masks(change: Change) -> Change:
    """Return a change of masks alone, whatever their datatype."""

    def masked(tensor: torch.Tensor) -> torch.Tensor:
        return change(tensor).to(tensor.dtype) if is_mask(tensor) else tensor.clone()

    return masked


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds only zeros and ones, whatever its datatype. Scalars and empty tensors are no masks."""
    if tensor.dim() == 0 or not tensor.numel():
        return False
    return _is_bool(tensor) or bool(((tensor == 0) | (tensor == 1)).all())


def _places(tensor: torch.Tensor) -> torch.Tensor:
    """Return each element's index in the last dim."""
    return torch.arange(tensor.shape[-1], device=tensor.device).expand(tensor.shape)


def _padded_right(tensor: torch.Tensor) -> torch.Tensor:
    return _places(tensor) < max(1, tensor.shape[-1] // 2)


def _padded_left(tensor: torch.Tensor) -> torch.Tensor:
    return _places(tensor) >= tensor.shape[-1] // 2


def _ragged(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask that is padded on the right, in each row further than in the one before."""
    rows = torch.arange(tensor[..., 0].numel(), device=tensor.device).reshape(tensor.shape[:-1])
    return _places(tensor) < (tensor.shape[-1] - rows % tensor.shape[-1])[..., None]


def _causal(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    rows = torch.arange(tensor.shape[-2], device=tensor.device)[:, None]
    return (_places(tensor) <= rows).expand(tensor.shape)


def _one_token(tensor: torch.Tensor) -> torch.Tensor:
    return _places(tensor) == 0


def _rows_rolled(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or tensor.dtype in _SIGNED:
        return tensor.clone()
    return tensor.roll(1, 0)


def _rows_alike(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0 or not tensor.numel():
        return tensor.clone()
    return tensor[:1].expand(tensor.shape).clone(memory_format=torch.contiguous_format)


def _all_equal(tensor: torch.Tensor) -> torch.Tensor:
    return (
        tensor.flatten()[0].expand(tensor.shape).clone(memory_format=torch.contiguous_format)
        if tensor.numel()
        else tensor.clone()
    )


def _one_hot(tensor: torch.Tensor) -> torch.Tensor:
    hot = torch.zeros_like(tensor)
    if tensor.dim() and tensor.numel():
        hot[..., tensor.shape[-1] // 2] = 1.0
    return hot


def _filled(value: Callable[[torch.finfo], float]) -> Change:
    """Return a change of floats to one number of their datatype, with the signs that they have."""
    return lambda tensor: torch.full_like(tensor, value(torch.finfo(tensor.dtype))).copysign(tensor)


def _is_bool(tensor: torch.Tensor) -> bool:
    return tensor.dtype is torch.bool


def _digest(tensors: Tensors) -> bytes:
    """Return the same digest for equal values; negative zero equals zero. Digests, because the inputs may be large."""
    digest = hashlib.blake2b()
    for tensor in tensors.values():
        values = tensor.detach() + 0.0 if tensor.is_floating_point() else tensor
        flat = values.cpu().flatten().clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.digest()


_SCALES = (1.0, 0.01, 100.0)
_CHANGES: list[tuple[str, Change]] = [
    ("negated", _floats(torch.neg)),
    ("zeros", _floats(torch.zeros_like)),
    ("reversed order", _reverse),
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
    ("all equal", _floats(_all_equal)),
    ("one-hot", _floats(_one_hot)),
    ("rows in another order", _rows_rolled),
    ("masks padded right", _masks(_padded_right)),
    ("masks padded left", _masks(_padded_left)),
    ("masks of one token", _masks(_one_token)),
    ("masks all ones", _masks(torch.ones_like)),
    ("masks all zeros", _masks(torch.zeros_like)),
]
_DEEP_CHANGES: list[tuple[str, Change]] = [
    ("masks causal", _masks(_causal)),
    ("masks padded right, each row further", _masks(_ragged)),
    ("rows alike", _rows_alike),
    ("ones", _floats(torch.ones_like)),
    ("minus ones", _floats(lambda tensor: -torch.ones_like(tensor))),
    ("whole numbers", _floats(torch.round)),
    ("absolute", _floats(torch.abs)),
    ("all negative", _floats(lambda tensor: -tensor.abs())),
    ("one more", _floats(lambda tensor: tensor + 1)),
    ("a hundred times as small", _floats(lambda tensor: tensor / 100)),
    ("one huge", _floats(_at(0, lambda tensor, _: torch.finfo(tensor.dtype).max / 4))),
    ("largest numbers", _floats(_filled(lambda kind: kind.max))),
    ("smallest numbers", _floats(_filled(lambda kind: kind.tiny))),
    ("denormal numbers", _floats(_filled(lambda kind: kind.tiny / 4))),
    ("none a number", _floats(lambda tensor: torch.full_like(tensor, float("nan")))),
    ("all infinite", _floats(_filled(lambda _: float("inf")))),
    ("last not a number", _floats(_at(-1, lambda *_: float("nan")))),
    (
        "last element one less",
        _integers(_at(-1, lambda tensor, value: max(torch.iinfo(tensor.dtype).min, int(value) - 1))),
    ),
]
# Of one input alone, so that inputs that were equal no longer are.
_ALONE_CHANGES: list[tuple[str, Change]] = [("first element changed", _at(0, _other_number))]
