"""Probes: the example's inputs with other values, in the same shapes and datatypes.

One hand-picked input proves nothing (x * 2 equals x - 1 at -1), so each kind of value is varied in more than one way.
A probe may make no sense to the model, which may then refuse it. If the model answers, the artifact must agree.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import torch

from tracehouse.check.inputs.value_changes import (
    ALONE_CHANGES,
    CHANGES,
    DEEP_CHANGES,
    SEARCHING_CHANGES,
    Change,
    find_extremes,
    is_bool,
)
from tracehouse.differential.case_names import name_probe
from tracehouse.eager.call import Call
from tracehouse.torch_values.tensors import to_bytes

Tensors = dict[str, torch.Tensor]
# The smallest and the largest integer that the model accepts in an input, by the path of the input, where known.
ValueBounds = Mapping[str, tuple[int, int]]

_DRAWS_DEEP = 3  # a deep search draws so many times at each scale; a choice


def generate_probes(
    example: Call, *, searching: bool, deep: bool = False, bounds: ValueBounds = MappingProxyType({}), seed: int = 0
) -> Iterator[tuple[str, Call]]:
    """Yield named variations of a call, the most telling first; none is equal to the example or to another.

    Shapes and datatypes stay as they are. `searching` is for a model that reads values in Python and so may branch on
    single elements, on one input alone, on extremes or on equal inputs. A model that reads no value runs the same
    operators on all values, and needs fewer probes. `deep` adds all other variations. Random integers stay within
    `bounds`, or within the range of the example's. `seed` decides all random values.
    """
    return drop_repeats(example, _vary(example.tensors, searching or deep, deep, bounds, seed))


def drop_repeats(example: Call, variations: Iterable[tuple[str, Tensors]]) -> Iterator[tuple[str, Call]]:
    """Yield a named call for each of these variations that equals neither the example nor an earlier variation."""
    digests = {_digest(example.tensors)}
    for name, varied in variations:
        if (digest := _digest(varied)) not in digests:
            digests.add(digest)
            yield name_probe(name), example.with_tensors(varied)


def _vary(
    tensors: Tensors, searching: bool, deep: bool, bounds: ValueBounds, seed: int
) -> Iterator[tuple[str, Tensors]]:
    for name, change in CHANGES:
        yield name, _change_all(tensors, change)
    yield from _vary_within_bounds(tensors, bounds)
    yield "random", _draw_all(tensors, bounds, seed, 1.0)
    if not searching:
        return
    yield "like inputs made equal", _make_equal(tensors)
    changes = [*SEARCHING_CHANGES, *(DEEP_CHANGES if deep else [])]
    for name, change in changes:
        yield name, _change_all(tensors, change)
    yield from _vary_randomly(tensors, bounds, seed, _DRAWS_DEEP if deep else 1)
    if len(tensors) == 1:
        return
    for name, change in [*ALONE_CHANGES, *CHANGES, *changes]:
        for path, tensor in tensors.items():
            yield f"{path!r} alone, {name}", {**tensors, path: change(tensor)}
    if deep:
        for path in tensors:
            for name, varied in _vary_randomly({path: tensors[path]}, bounds, seed, _DRAWS_DEEP):
                yield f"{path!r} alone, {name}", {**tensors, **varied}


def _vary_within_bounds(tensors: Tensors, bounds: ValueBounds) -> Iterator[tuple[str, Tensors]]:
    """Yield integers at the bounds of what the model accepts, such as the last and the first id of a vocabulary."""
    known = {path: tensors[path] for path in bounds if path in tensors and tensors[path].numel()}
    if not known:
        return
    for name, first, second in (("both ends", 1, 0), ("the largest", 1, 1), ("the smallest", 0, 0)):
        varied = {path: _alternate(tensor, bounds[path][first], bounds[path][second]) for path, tensor in known.items()}
        yield f"integers at {name} of their range", {**tensors, **varied}


def _alternate(tensor: torch.Tensor, first: int, second: int) -> torch.Tensor:
    """Return a tensor of the same shape in which the two integers take turns."""
    flat = tensor.new_full((tensor.numel(),), second)
    flat[::2] = first
    return flat.reshape(tensor.shape)


def _vary_randomly(tensors: Tensors, bounds: ValueBounds, seed: int, draws: int) -> Iterator[tuple[str, Tensors]]:
    for draw in range(1, draws + 1):
        for scale in _SCALES:
            name = f"random, {scale:g} times as large" + (f", draw {draw}" if draw > 1 else "")
            yield name, _draw_all(tensors, bounds, seed + draw, scale)


def _draw_all(tensors: Tensors, bounds: ValueBounds, seed: int, scale: float) -> Tensors:
    """Draw normal floats with `scale` times the example's root mean square, integers within bounds, and booleans."""
    rng = np.random.default_rng(seed)
    return {path: _draw(tensor, bounds.get(path), rng, scale) for path, tensor in tensors.items()}


def _draw(tensor: torch.Tensor, known: tuple[int, int] | None, rng: np.random.Generator, scale: float) -> torch.Tensor:
    if tensor.is_floating_point():
        most = torch.finfo(tensor.dtype).max
        values = np.asarray(rng.standard_normal(tensor.shape)) * _measure_magnitude(tensor) * scale
        return torch.as_tensor(np.clip(values, -most, most)).to(tensor)
    low, high = (0, 1) if is_bool(tensor) else known or find_extremes(tensor)
    kind = np.uint64 if high > torch.iinfo(torch.int64).max else np.int64
    integers = rng.integers(low, high, tensor.shape, dtype=kind, endpoint=True)
    return torch.from_numpy(np.asarray(integers)).to(tensor)


def _measure_magnitude(tensor: torch.Tensor) -> float:
    """Return the root mean square of a tensor's finite numbers; 1 if they are all zero."""
    values = tensor.detach().double()
    values = values[values.isfinite()]
    return float(values.square().mean().sqrt()) or 1.0 if values.numel() else 1.0


def _change_all(tensors: Tensors, change: Change) -> Tensors:
    return {path: change(tensor) for path, tensor in tensors.items()}


def _make_equal(tensors: Tensors) -> Tensors:
    """Give all inputs of the same shape and datatype the values of the first of them."""
    alike: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    return {path: alike.setdefault((tensor.dtype, tensor.shape), tensor).clone() for path, tensor in tensors.items()}


def _digest(tensors: Tensors) -> bytes:
    """Return the same digest for equal values; negative zero equals zero. Digests, because the inputs may be large."""
    digest = hashlib.blake2b()
    for tensor in tensors.values():
        values = tensor.detach() + 0.0 if tensor.is_floating_point() else tensor
        digest.update(to_bytes(values))
    return digest.digest()


# How large random floats are, relative to the example's: alike, and two orders of magnitude less and more. A choice.
_SCALES = (1.0, 0.01, 100.0)
