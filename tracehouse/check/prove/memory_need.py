"""Memory need: how many bytes the tensors of a run on symbols have at one time, at most, as products of sizes.

What a graph computes has sizes that are expressions in symbols. Each is bounded by a sum of products of sizes, and each
tensor counts from the operator that makes it to the last one that uses it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch

from tracehouse.check.prove.size_bounds import Bound, SizeBounds, Unbounded, add, find_largest, scale
from tracehouse.check.prove.symbols import Symbols, is_fake
from tracehouse.check.prove.tensor_memory import storage_of
from tracehouse.check.prove.trail import Trail
from tracehouse.contract.memory import TERMS_MAX, Memory, SizeProduct

_LEAST_FACTOR = 1e-6  # less is what the rounding of a difference leaves


def memory_of(
    trail: Trail, inputs: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor], symbols: Symbols
) -> Memory:
    """Return what a call needs. Raises Unbounded if the size of a tensor cannot be bounded."""
    bounds = SizeBounds(symbols)
    given, returned = _storages(inputs), _storages(outputs)
    tensors = _all_tensors(trail, given, returned)
    bytes_of = {storage: bounds.bytes_of(tensor) for storage, tensor in tensors.items()}
    most = _find_peak(trail, _live_spans(trail, given, returned), bytes_of, bounds)
    # What arrives is copied once, and what is returned twice, on their way through the runner.
    copies = [bytes_of[storage] for storage in [*given, *returned, *returned]]
    elements = find_largest(*(bounds.product(tensor.shape, 1) for tensor in tensors.values()))
    return Memory(bytes=_products(add(most, *copies)), elements=_products(elements))


def join(memories: Sequence[Memory]) -> Memory | None:
    """Return what a call needs that is one of several: of each product the largest factor. None if that is too long."""
    try:
        return Memory(
            bytes=_products(find_largest(*(_bound(memory.bytes) for memory in memories))),
            elements=_products(find_largest(*(_bound(memory.elements) for memory in memories))),
        )
    except Unbounded:
        return None


def _bound(products: Iterable[SizeProduct]) -> Bound:
    return {one.key: one.times for one in products}


def _products(bound: Bound) -> list[SizeProduct]:
    if len(bound) > TERMS_MAX:
        raise Unbounded("too many products of sizes")
    return [SizeProduct(times=times, powers=dict(powers)) for powers, times in sorted(bound.items())
            if times > _LEAST_FACTOR]  # fmt: skip


def _find_peak(
    trail: Trail, alive: Mapping[int, tuple[int, int]], bytes_of: Mapping[int, Bound], bounds: SizeBounds
) -> Bound:
    """Return how many bytes there are at one time at most, given between which steps each storage is there."""
    starts: dict[int, list[int]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for storage, (first, last) in alive.items():
        starts[first].append(storage)
        ends[last].append(storage)
    now: Bound = {}
    most: Bound = {}
    for place in range(len(trail.steps) + 1):
        now = add(now, *(bytes_of[storage] for storage in starts[place]))
        passing = [bytes_of[storage] for storage in _storages(trail.made[place]) if storage not in alive]
        hidden = [bounds.product(shape, size) for shape, size in trail.hidden[place]]
        most = find_largest(most, add(now, *passing, *hidden))
        now = add(now, *(scale(bytes_of[storage], -1.0) for storage in ends[place]))
    return most


def _live_spans(trail: Trail, given: Iterable[int], returned: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return for each storage the steps between which it is there."""
    last_step = len(trail.steps)
    spans = dict.fromkeys(given, (0, last_step))
    for place, (inputs, outputs) in enumerate(trail.steps):
        for storage in (*_storages(inputs), *_storages(outputs)):
            first, last = spans.get(storage, (place, place))
            spans[storage] = first, max(last, place)
    for storage in returned:
        spans[storage] = spans.get(storage, (last_step, last_step))[0], last_step
    return spans


def _all_tensors(
    trail: Trail, given: Mapping[int, torch.Tensor], returned: Mapping[int, torch.Tensor]
) -> dict[int, torch.Tensor]:
    """Return a tensor of each storage."""
    seen = {**given, **returned}
    for made in trail.made.values():
        seen |= _storages(made)
    for inputs, outputs in trail.steps:
        seen |= _storages(inputs) | _storages(outputs)
    return seen


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    return {storage_of(tensor): tensor for tensor in tensors if is_fake(tensor)}
