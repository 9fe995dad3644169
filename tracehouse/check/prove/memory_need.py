"""Memory need: how many bytes the tensors of a run on symbols have at one time, at most, as products of sizes.

What a graph computes has sizes that are expressions in symbols. Each is bounded by a sum of products of sizes, and each
tensor counts from the operator that makes it to the last one that uses it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from tracehouse.check.prove.operand_keys import tensors_in
from tracehouse.check.prove.symbols import Symbols, expression_of, is_fake
from tracehouse.check.prove.tensor_memory import storage_of
from tracehouse.contract.memory import TERMS_MAX, Memory, SizeProduct

# A product of sizes: each symbol with its power, sorted. A bound has a factor for each product.
_Powers = tuple[tuple[str, int], ...]
Bound = dict[_Powers, float]
_ONE: _Powers = ()
_LEAST_FACTOR = 1e-6  # less is what the rounding of a difference leaves
# These operators may compute a number for each pair of positions, which no result of theirs shows: their own tensors
# of these sizes are so many. Counted where attention runs in one kernel; in a kernel that needs none, too.
_SCORES_AT_ONCE = 3
# At which place an operator takes the number of heads.
_HEADS_AT = {"_native_multi_head_attention": 4, "_transformer_encoder_layer_fwd": 2}
_ATTENTION = {
    *_HEADS_AT,
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_cudnn_attention",
    "scaled_dot_product_attention",
}


class Unbounded(Exception):
    """A size of which no bound is known."""


@dataclass
class Trail:
    """What a run of the graph made, step by step, and the tensors that each step took and returned."""

    steps: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = field(default_factory=list)
    # By the number of the step: the results of operators that ran in it, and elements that no result shows.
    made: dict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    hidden: dict[int, list[tuple[Sequence[Any], int]]] = field(default_factory=lambda: defaultdict(list))

    def note_operator(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Note what an operator of the present step made."""
        self.made[len(self.steps)] += tensors_in(result if isinstance(result, list | tuple) else [result])
        if name in _ATTENTION:
            query, key = args[0], args[0] if name in _HEADS_AT and _HEADS_AT[name] == 2 else args[1]
            heads = args[_HEADS_AT[name]] if name in _HEADS_AT else 1  # elsewhere they are a dim
            shape = [*query.shape[:-1], key.shape[-2], heads, _SCORES_AT_ONCE]
            self.hidden[len(self.steps)].append((shape, query.element_size()))

    def end_step(self, inputs: Sequence[Any], outputs: Any) -> None:
        """Note that a step ended."""
        self.steps.append((_fakes(inputs), _fakes(outputs)))


def memory_of(
    trail: Trail, inputs: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor], symbols: Symbols
) -> Memory:
    """Return what a call needs. Raises Unbounded if the size of a tensor cannot be bounded."""
    measure = _Measure(symbols)
    given, returned = _storages(inputs), _storages(outputs)
    bytes_of = {storage: measure.bytes_of(tensor) for storage, tensor in _all_tensors(trail, given, returned)}
    alive = _live_spans(trail, given, returned)
    most: Bound = {}
    ends: dict[int, list[int]] = defaultdict(list)
    starts: dict[int, list[int]] = defaultdict(list)
    for storage, (first, last) in alive.items():
        starts[first].append(storage)
        ends[last].append(storage)
    now: Bound = {}
    for place in range(len(trail.steps) + 1):
        for storage in starts[place]:
            now = _add(now, bytes_of[storage])
        passing = [storage for storage in _storages(trail.made[place]) if storage not in alive]
        beside = [bytes_of[storage] for storage in passing]
        beside += [measure.product(shape, size) for shape, size in trail.hidden[place]]
        most = _largest(most, _add(now, *beside))
        for storage in ends[place]:
            now = _add(now, _times(bytes_of[storage], -1.0))
    # What arrives is copied once, and what is returned twice, on their way through the runner.
    copies = [bytes_of[storage] for storage in [*given, *returned, *returned]]
    elements: Bound = {}
    for _, tensor in _all_tensors(trail, given, returned):
        elements = _largest(elements, measure.product(tensor.shape, 1))
    return Memory(bytes=_products(_add(most, *copies)), elements=_products(elements))


def join(memories: Sequence[Memory]) -> Memory:
    """Return what a call needs that is one of several: of each product the largest factor."""
    return Memory(
        bytes=_products(_largest(*({_key(one): one.times for one in memory.bytes} for memory in memories))),
        elements=_products(_largest(*({_key(one): one.times for one in memory.elements} for memory in memories))),
    )


def _key(one: SizeProduct) -> _Powers:
    return tuple(sorted(one.powers.items()))


def _products(bound: Bound) -> list[SizeProduct]:
    if len(bound) > TERMS_MAX:
        raise Unbounded("too many products of sizes")
    return [SizeProduct(times=times, powers=dict(powers)) for powers, times in sorted(bound.items())
            if times > _LEAST_FACTOR]  # fmt: skip


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
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield each storage once, with a tensor that has it."""
    seen = {**given, **returned}
    for made in trail.made.values():
        seen |= _storages(made)
    for inputs, outputs in trail.steps:
        seen |= _storages(inputs) | _storages(outputs)
    yield from seen.items()


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    return {storage_of(tensor): tensor for tensor in tensors if is_fake(tensor)}


def _fakes(values: Any) -> list[torch.Tensor]:
    return [
        tensor for tensor in tensors_in(values if isinstance(values, list | tuple) else [values]) if is_fake(tensor)
    ]


class _Measure:
    """Bounds the sizes of one run's tensors by products of sizes."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._known: dict[sympy.Basic, Bound] = {}

    def bytes_of(self, tensor: torch.Tensor) -> Bound:
        """Return the bytes of the tensor's storage."""
        count: Any = tensor.untyped_storage().nbytes()
        return self._bound_of(count)

    def product(self, shape: Sequence[Any], times: int) -> Bound:
        """Return the product of some sizes."""
        product: Bound = {_ONE: float(times)}
        for size in shape:
            product = _multiply(product, self._bound_of(size))
        return product

    def _bound_of(self, size: Any) -> Bound:
        if isinstance(size, torch.SymInt):
            return self._bound(expression_of(size))
        return {_ONE: float(size)} if size else {}

    def _bound(self, expression: sympy.Basic) -> Bound:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = self._find_bound(expression)
        return known

    def _find_bound(self, expression: sympy.Basic) -> Bound:
        """Return a bound from above for an expression that is nowhere below 0."""
        if expression.is_Number:
            return {_ONE: float(expression)} if expression > 0 else {}
        if expression.is_Symbol:
            name = self._symbols.names.get(expression)
            if name is not None:
                return {((name, 1),): 1.0}
            return self._bound_of(self._symbols.largest_of(expression))
        name, args = type(expression).__name__, expression.args
        match name:
            case "Add" | "Max":
                return _add(*map(self._bound, args))
            case "Mul":
                if any(one.is_Number and one < 0 for one in args):
                    return {}  # it is taken away from the rest of a sum
                product: Bound = {_ONE: 1.0}
                for one in args:
                    product = _multiply(product, self._bound(one))
                return product
            case "Pow" | "PowByNatural" if args[1].is_Integer and 0 <= args[1] <= 16:
                return (
                    self.product([], 1)
                    if not args[1]
                    else self._bound(sympy.Mul(*[args[0]] * int(args[1]), evaluate=False))
                )
            case "FloorDiv" | "CleanDiv" | "CeilDiv":
                divided = self._bound(args[0])
                divided = _times(divided, 1 / float(args[1])) if args[1].is_Integer and args[1] > 0 else divided
                return divided if name != "CeilDiv" else _add(divided, {_ONE: 1.0})
            case "Mod" | "PythonMod" | "Min":
                return self._bound(args[1])
            case "Identity":
                return self._bound(args[0])
        raise Unbounded(name)


def _add(*bounds: Bound) -> Bound:
    total: Bound = {}
    for bound in bounds:
        for powers, times in bound.items():
            total[powers] = total.get(powers, 0.0) + times
    return total


def _largest(*bounds: Bound) -> Bound:
    largest: Bound = {}
    for bound in bounds:
        for powers, times in bound.items():
            largest[powers] = max(largest.get(powers, 0.0), times)
    return largest


def _times(bound: Bound, factor: float) -> Bound:
    return {powers: times * factor for powers, times in bound.items()}


def _multiply(one: Bound, other: Bound) -> Bound:
    product: Bound = {}
    for first, first_times in one.items():
        for second, second_times in other.items():
            powers: dict[str, int] = defaultdict(int)
            for symbol, power in (*first, *second):
                powers[symbol] += power
            key = tuple(sorted(powers.items()))
            product[key] = product.get(key, 0.0) + first_times * second_times
    return product
