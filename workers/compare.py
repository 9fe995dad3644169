"""Comparing what two calls gave: every output leaf's place, dtype, shape and values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import JsonValue

from service.domain.tensor import json_number
from workers import structure

# What a format with few digits can be held to: a few units in the last place.
_LEAST_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@dataclass(frozen=True)
class Difference:
    """How one leaf differs; `index`, `eager` and `artifact` tell of the largest difference, where there is one."""

    leaf: str
    what: str
    index: list[int] | None = None
    eager: JsonValue = None
    artifact: JsonValue = None


@dataclass(frozen=True)
class Compared:
    """`largest` is over all leaves, and None where they cannot be subtracted."""

    largest: float | None
    difference: Difference | None

    @property
    def agrees(self) -> bool:
        return self.difference is None


def compare(
    eager: Any,
    artifact: Any,
    tolerance: float,
    name: str = "output",
    sides: tuple[str, str] = ("eager", "the artifact"),
) -> Compared:
    """The first leaf that differs by more than the tolerance, and the largest difference of all.

    `sides` is what the two are called.
    """
    misplaced = _misplaced(eager, artifact, name, sides)
    if misplaced is not None:
        return Compared(None, misplaced)
    expected, actual = structure.tensors(eager, name), structure.tensors(artifact, name)
    compared = [_compare_leaf(path, expected[path], actual[path], tolerance, sides) for path in expected]
    first = next((leaf.difference for leaf in compared if leaf.difference is not None), None)
    largest = [leaf.largest for leaf in compared if leaf.largest is not None]
    return Compared(max(largest, default=0.0) if len(largest) == len(compared) else None, first)


def copied(value: Any) -> Any:
    """The outputs as they are now: a later call may write into the memory that they show."""
    match value:
        case Mapping():
            return {key: copied(item) for key, item in value.items()}
        case tuple():
            return tuple(copied(item) for item in value)
        case list():
            return [copied(item) for item in value]
        case torch.Tensor():
            return value.detach().clone()
    return value


def _misplaced(eager: Any, artifact: Any, name: str, sides: tuple[str, str]) -> Difference | None:
    """Where the two nest differently."""
    kind, other = _kind(eager), _kind(artifact)
    if kind != other:
        return Difference(name, f"{sides[0]} returns a {kind} there, and {sides[1]} a {other}")
    match eager:
        case Mapping():
            keys, others = [str(key) for key in eager], [str(key) for key in artifact]
            if sorted(keys) != sorted(others):
                return Difference(name, f"{sides[0]} returns the keys {keys} there, and {sides[1]} {others}")
            by_key = {str(key): item for key, item in artifact.items()}
            pairs = [(str(key), item, by_key[str(key)]) for key, item in eager.items()]
        case list() | tuple():
            if len(eager) != len(artifact):
                return Difference(name, f"{sides[0]} returns {len(eager)} items there, and {sides[1]} {len(artifact)}")
            pairs = [(str(index), *pair) for index, pair in enumerate(zip(eager, artifact, strict=True))]
        case _:
            return None
    found = (_misplaced(item, other_item, f"{name}.{key}", sides) for key, item, other_item in pairs)
    return next((difference for difference in found if difference is not None), None)


def _kind(value: Any) -> str:
    match value:
        case torch.Tensor():
            return "tensor"
        case Mapping():
            return "dict"
        case tuple():  # a NamedTuple is traced to a tuple
            return "tuple"
        case list():
            return "list"
    return type(value).__name__


def _compare_leaf(
    name: str, eager: torch.Tensor, artifact: torch.Tensor, tolerance: float, sides: tuple[str, str]
) -> Compared:
    if eager.dtype != artifact.dtype:
        return Compared(None, Difference(name, f"{sides[0]} gives {eager.dtype}, and {sides[1]} {artifact.dtype}"))
    if eager.shape != artifact.shape:
        shapes = f"{sides[0]} gives shape {list(eager.shape)}, and {sides[1]} {list(artifact.shape)}"
        return Compared(None, Difference(name, shapes))
    if torch.equal(eager, artifact):
        return Compared(0.0, None)
    if not eager.is_floating_point():
        return _farthest(name, eager, artifact, (eager.double() - artifact.double()).abs(), 0.0, sides)
    unlike = eager.isfinite() != artifact.isfinite()
    unlike |= ~eager.isfinite() & ~torch.isclose(eager, artifact, equal_nan=True)
    if unlike.any():
        return Compared(None, _difference_at(name, eager, artifact, unlike.nonzero()[0].tolist(), sides))
    # Two infinities are equal, and their difference is none that counts.
    expected, actual = (side.double().where(eager.isfinite(), 0.0) for side in (eager, artifact))
    # Scaled by the largest value: where numbers of that size were added and took each other away, what is left of them
    # is no more exact than they were.
    relative = max(tolerance, _LEAST_TOLERANCE.get(eager.dtype, 0.0))
    allowed = relative * (expected.abs() + expected.abs().max())
    return _farthest(name, eager, artifact, (expected - actual).abs(), allowed, sides)


def _farthest(
    name: str,
    eager: torch.Tensor,
    artifact: torch.Tensor,
    apart: torch.Tensor,
    allowed: torch.Tensor | float,
    sides: tuple[str, str],
) -> Compared:
    largest = float(apart.max())
    if not (apart > allowed).any():
        if eager.is_floating_point():
            return Compared(largest, None)
        apart = (eager != artifact).double()  # integers beyond 2^53, which differ and are equal as floats
    index = [int(i) for i in torch.unravel_index(apart.argmax(), apart.shape)]
    return Compared(largest, _difference_at(name, eager, artifact, index, sides))


def _difference_at(
    name: str, eager: torch.Tensor, artifact: torch.Tensor, index: list[int], sides: tuple[str, str]
) -> Difference:
    first, second = _at(eager, index), _at(artifact, index)
    return Difference(name, f"{sides[0]} gives {first} at {index}, and {sides[1]} {second}", index, first, second)


def _at(tensor: torch.Tensor, index: list[int]) -> JsonValue:
    value: JsonValue = tensor[tuple(index)].item()
    return json_number(value) if isinstance(value, float) else value
