"""Condition bounds: whether a condition holds for all values of its operands, given the bounds of each."""

from collections.abc import Callable, Iterable
from itertools import product
from math import prod

import sympy

Bounds = tuple[int, int]  # the smallest and the largest value of an integer
BoundsOf = Callable[[sympy.Basic], Bounds | None]

_POWER_MAX = 64  # a higher one would take long. Chosen.


def decide(condition: sympy.Basic, bounds_of: BoundsOf) -> bool | None:
    """Return whether the condition holds everywhere (True) or nowhere (False); None if the bounds do not tell.

    `bounds_of` returns the bounds of an operand, and None for an expression that is to be taken apart.
    """
    if condition is sympy.true or condition is sympy.false:
        return condition is sympy.true
    known = bounds_of(condition)
    if known is not None:
        return bool(known[0]) if known[0] == known[1] else None
    name = type(condition).__name__
    if name == "And":
        return _decide_all(decide(one, bounds_of) for one in condition.args)
    if name == "Or":
        return _negate(_decide_all(_negate(decide(one, bounds_of)) for one in condition.args))
    if name == "Not":
        return _negate(decide(condition.args[0], bounds_of))
    if name in _RELATIONS:
        first, second = (_find_bounds(one, bounds_of) for one in condition.args)
        return None if first is None or second is None else _RELATIONS[name](first, second)
    return None


def _decide_all(decided: Iterable[bool | None]) -> bool | None:
    every = [*decided]
    if False in every:
        return False
    return None if None in every else True


def _negate(decided: bool | None) -> bool | None:
    return None if decided is None else not decided


def _find_bounds(expression: sympy.Basic, bounds_of: BoundsOf) -> Bounds | None:
    if isinstance(expression, sympy.Integer):
        return int(expression), int(expression)
    known = bounds_of(expression)
    if known is not None:
        return known
    combine = _OPERATIONS.get(type(expression).__name__)
    operands = [_find_bounds(one, bounds_of) for one in expression.args] if combine is not None else []
    known_operands = [one for one in operands if one is not None]
    return combine(known_operands) if combine is not None and len(known_operands) == len(operands) else None


def _less(first: Bounds, second: Bounds) -> bool | None:
    if first[1] < second[0]:
        return True
    return False if first[0] >= second[1] else None


def _equal(first: Bounds, second: Bounds) -> bool | None:
    if first[1] < second[0] or second[1] < first[0]:
        return False
    return True if first[0] == first[1] == second[0] == second[1] else None


def _multiply(factors: Iterable[Bounds]) -> Bounds:
    products = [prod(ends) for ends in product(*factors)]
    return min(products), max(products)


def _divide(operands: list[Bounds]) -> Bounds | None:
    """Return the bounds of a quotient that is rounded down; None unless the divisor is above 0."""
    (low, high), divisor = operands
    if divisor[0] <= 0:
        return None
    quotients = [end // by for end in (low, high) for by in divisor]
    return min(quotients), max(quotients)


def _find_rest(operands: list[Bounds]) -> Bounds | None:
    """Return the bounds of what a division leaves; None unless the divisor is above 0."""
    (low, high), divisor = operands
    if divisor[0] <= 0:
        return None
    return (low, high) if low >= 0 and high < divisor[0] else (0, divisor[1] - 1)


def _raise_to_power(operands: list[Bounds]) -> Bounds | None:
    (low, high), (power, same) = operands
    return (low**power, high**power) if power == same and 0 <= power <= _POWER_MAX and low >= 0 else None


def _on_both_ends(function: Callable[[Iterable[int]], int]) -> Callable[[list[Bounds]], Bounds]:
    return lambda operands: (function(low for low, _ in operands), function(high for _, high in operands))


# By the names of sympy's functions and of torch's own (torch.utils._sympy.functions).
_RELATIONS: dict[str, Callable[[Bounds, Bounds], bool | None]] = {
    "Equality": _equal,
    "Unequality": lambda first, second: _negate(_equal(first, second)),
    "StrictLessThan": _less,
    "LessThan": lambda first, second: _negate(_less(second, first)),
    "StrictGreaterThan": lambda first, second: _less(second, first),
    "GreaterThan": lambda first, second: _negate(_less(first, second)),
}
_OPERATIONS: dict[str, Callable[[list[Bounds]], Bounds | None]] = {
    "FloorDiv": _divide,
    "CleanDiv": _divide,
    "Mod": _find_rest,
    "PythonMod": _find_rest,
    "Pow": _raise_to_power,
    "PowByNatural": _raise_to_power,
    "Identity": lambda operands: operands[0],
    "Add": _on_both_ends(sum),
    "Mul": _multiply,
    "Max": _on_both_ends(max),
    "Min": _on_both_ends(min),
}
