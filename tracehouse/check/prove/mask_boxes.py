"""Mask boxes: a mask of cells as boxes, at most so many of them."""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float64]  # of the places along an axis
Box = tuple[tuple[int, ...], ...]  # the places along each axis

_CANDIDATES_MAX = 256  # so many boxes are grown and compared; a choice


def boxes_within(mask: Mask, weights: Sequence[Weights], most: int) -> list[Box]:
    """Return boxes whose cells are all in the mask, the weightiest first: all of it, if `most` boxes are enough.

    If they are not, each box is grown as far as the mask goes, and boxes are taken one by one, each time the one that
    adds most (the greedy algorithm for maximum coverage). Such boxes may overlap.
    """
    boxes = sorted(_split(mask), key=lambda box: -_weight(weights, box)) if mask.any() else []
    if len(boxes) <= most:
        return boxes
    grown = dict.fromkeys(_grow(mask, box) for box in boxes[:_CANDIDATES_MAX])
    return [*_take_greedily(mask, [*grown], weights, most)]


def _weight(weights: Sequence[Weights], box: Box) -> float:
    return float(np.prod([weight[[*places]].sum() for weight, places in zip(weights, box, strict=True)]))


def _grow(mask: Mask, box: Box) -> Box:
    """Return the box with all places along each axis at which the rest of it is in the mask."""
    for axis in range(mask.ndim):
        whole = [*box[:axis], range(mask.shape[axis]), *box[axis + 1 :]]
        others = tuple(other for other in range(mask.ndim) if other != axis)
        places = np.flatnonzero(mask[np.ix_(*whole)].all(axis=others))
        box = (*box[:axis], tuple(places.tolist()), *box[axis + 1 :])
    return box


def _take_greedily(mask: Mask, boxes: Sequence[Box], weights: Sequence[Weights], most: int) -> Iterator[Box]:
    """Yield at most so many of the boxes, each time the one whose cells that are in no box before weigh most."""
    left = reduce(np.multiply.outer, weights) * mask
    # What a box adds only shrinks. So the box that is first by an older weight is first if its new weight still is.
    adds = {box: _weight(weights, box) for box in boxes}
    while adds and most:
        first = max(adds, key=lambda box: adds[box])
        cells = np.ix_(*first)
        adds[first] = float(left[cells].sum())
        if adds[first] < max((one for box, one in adds.items() if box != first), default=0.0):
            continue
        del adds[first]
        if not left[cells].any():
            return
        left[cells] = 0.0
        most -= 1
        yield first


def _split(mask: Mask) -> Iterator[Box]:
    """Yield boxes that have no point in common and together have all points of the mask."""
    if mask.ndim == 0:
        yield ()
        return
    used = [np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
            for axis in range(mask.ndim)]  # fmt: skip
    if mask[np.ix_(*used)].all():
        yield tuple(tuple(places.tolist()) for places in used)
        return
    # Equal slices along an axis share their boxes. The axis with the fewest different slices needs the fewest boxes.
    equal_slices = [_equal_slices(mask, axis) for axis in range(mask.ndim)]
    axis = min(range(mask.ndim), key=lambda axis: len(equal_slices[axis]))
    for places in equal_slices[axis]:
        for box in _split(np.asarray(mask.take(places[0], axis=axis))):
            yield (*box[:axis], tuple(places), *box[axis:])


def _equal_slices(mask: Mask, axis: int) -> list[list[int]]:
    """Return the places along the axis, those with equal slices together; empty slices are left out."""
    places_by_slice: dict[bytes, list[int]] = {}
    for place in range(mask.shape[axis]):
        part = mask.take(place, axis=axis)
        if part.any():
            places_by_slice.setdefault(part.tobytes(), []).append(place)
    return [*places_by_slice.values()]
