"""Size bounds: sums of products of sizes that expressions in symbols never exceed, whatever the sizes are."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from tracehouse.check.prove.symbols import Symbols, expression_of
from tracehouse.contract.memory import Powers

# By product of sizes, its factor.
Bound = dict[Powers, float]
_ONE: Powers = ()
_POWER_MAX = 16


class Unbounded(Exception):
    """No bound of a size is known, or it has too many products."""


class SizeBounds:
    """Bounds the sizes of one run's tensors by products of sizes."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._known: dict[sympy.Basic, Bound] = {}

    def bytes_of(self, tensor: torch.Tensor) -> Bound:
        """Return the bytes of the tensor's storage."""
        count: Any = tensor.untyped_storage().nbytes()
        return self._bound_of(count)

    def product(self, shape: Sequence[Any], times: int) -> Bound:
        """Return the product of these sizes, so many times."""
        return multiply({_ONE: float(times)}, *map(self._bound_of, shape))

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
                return add(*map(self._bound, args))
            case "Mul":
                if any(one.is_Number and one < 0 for one in args):
                    return {}  # it is taken away from the rest of a sum
                return multiply(*map(self._bound, args))
            case "Pow" | "PowByNatural" if args[1].is_Integer and 0 <= args[1] <= _POWER_MAX:
                return multiply(*[self._bound(args[0])] * int(args[1]))
            case "FloorDiv" | "CleanDiv":
                return self._find_quotient(*args)
            case "CeilDiv":
                return add(self._find_quotient(*args), {_ONE: 1.0})
            case "Mod" | "PythonMod" | "Min":
                return self._bound(args[1])
            case "Identity":
                return self._bound(args[0])
        raise Unbounded(name)

    def _find_quotient(self, divided: sympy.Basic, by: sympy.Basic) -> Bound:
        bound = self._bound(divided)
        return scale(bound, 1 / float(by)) if by.is_Integer and by > 0 else bound


def add(*bounds: Bound) -> Bound:
    """Return the sum of bounds."""
    total: Bound = {}
    for bound in bounds:
        for powers, times in bound.items():
            total[powers] = total.get(powers, 0.0) + times
    return total


def find_largest(*bounds: Bound) -> Bound:
    """Return a bound of whichever is the largest: of each product of sizes the largest factor."""
    largest: Bound = {}
    for bound in bounds:
        for powers, times in bound.items():
            largest[powers] = max(largest.get(powers, 0.0), times)
    return largest


def scale(bound: Bound, factor: float) -> Bound:
    """Return so many times the bound."""
    return {powers: times * factor for powers, times in bound.items()}


def multiply(*bounds: Bound) -> Bound:
    """Return the product of bounds; 1 if there are none."""
    product: Bound = {_ONE: 1.0}
    for bound in bounds:
        product = add(*(_multiply_terms(product, powers, times) for powers, times in bound.items()))
    return product


def _multiply_terms(bound: Bound, by: Powers, times: float) -> Bound:
    return {_join_powers(powers, by): own * times for powers, own in bound.items()}


def _join_powers(one: Powers, other: Powers) -> Powers:
    joined: dict[str, int] = defaultdict(int)
    for symbol, power in (*one, *other):
        joined[symbol] += power
    return tuple(sorted(joined.items()))
