"""Evaluation: the values of expressions in symbols, at many sizes at once and to the last bit.

Python's integers have no bound: those that 64 bits may not hold are computed one by one.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy

from tracehouse.check.prove.size_arithmetic import CannotEvaluate, Computation

# Integers below this are computed in 64 bits. It leaves room for the rounding of an estimate in floats.
_SMALL_INTEGERS = 2**62
# So many values at most are computed one by one.
_ONE_BY_ONE_MAX = 2**16

Values = npt.NDArray[Any]


class Evaluation:
    """Evaluates expressions at all sizes at once. An expression that is part of several others is evaluated once."""

    def __init__(
        self,
        sizes: Callable[[str], Values],
        names: Mapping[sympy.Symbol, str],
        computations: Mapping[sympy.Symbol, Computation],
    ) -> None:
        """`sizes` returns all sizes of a name, `names` has the symbols of sizes, `computations` those of floats."""
        self._sizes = sizes
        self._names = names
        self._computations = computations
        self._values: dict[sympy.Basic, Values] = {}

    def value(self, expression: sympy.Basic) -> Values:
        """Return the expression's values. Raises CannotEvaluate."""
        value = self._values.get(expression)
        if value is None:
            with np.errstate(all="ignore"):
                value = self._values[expression] = self._evaluate(expression)
        return value

    def are_equal(self, first: sympy.Basic, second: sympy.Basic) -> Values:
        """Return where both have the same value; zeros of different signs are two values. Raises CannotEvaluate."""
        one, other = self.value(first), self.value(second)
        if _is_float(one) != _is_float(other):
            return _compare_with_float(one, other)
        if _is_float(one):
            return np.asarray((one == other) & (np.signbit(one) == np.signbit(other)))
        return np.asarray(one == other, dtype=bool)

    def are_close(self, first: sympy.Basic, second: sympy.Basic, relative: float) -> Values:
        """Return where two floats differ by no more than this share of them. Raises CannotEvaluate."""
        one, other = (np.asarray(self.value(expression), dtype=float) for expression in (first, second))
        with np.errstate(all="ignore"):
            return np.asarray(np.abs(one - other) <= relative * np.minimum(np.abs(one), np.abs(other)), dtype=bool)

    def _evaluate(self, expression: sympy.Basic) -> Values:
        if expression in self._computations:
            computation = self._computations[expression]
            return computation.operation.compute(*map(self.value, computation.operands))
        if expression.is_Symbol:
            if expression not in self._names:
                raise CannotEvaluate(str(expression))
            return self._sizes(self._names[expression])
        if expression is sympy.true or expression is sympy.false:
            return np.asarray(expression is sympy.true)
        if expression.is_Integer:
            return _integer(int(expression))
        if expression.is_Number:
            return np.asarray(float(expression))
        name = type(expression).__name__
        function = _FUNCTIONS.get(name)
        if function is None:
            raise CannotEvaluate(name)
        return np.asarray(function(*map(self.value, expression.args)))


def _integer(value: int) -> Values:
    return np.asarray(value) if abs(value) < _SMALL_INTEGERS else np.asarray(value, dtype=object)


def _is_float(values: Values) -> bool:
    return bool(np.issubdtype(values.dtype, np.floating))


def _compare_with_float(one: Values, other: Values) -> Values:
    """Return where an integer and a float have the same value. Raises CannotEvaluate where they may be too large."""
    floats, integers = (one, other) if _is_float(one) else (other, one)
    if (np.abs(np.asarray(integers, dtype=float)) >= 2**53).any():
        raise CannotEvaluate("a large integer beside a float")
    return np.asarray(floats == integers, dtype=bool)


def _as_python_integers(values: Values) -> Values:
    if values.size > _ONE_BY_ONE_MAX:
        raise CannotEvaluate("integers of more than 64 bits, at too many sizes")
    return values.astype(object)


def _on_integers(function: Callable[..., Any], *, grows: bool = True) -> Callable[..., Any]:
    """Return the function on integers of any size. sympy reorders sums and products, so it takes no floats.

    `grows` says that the result may be larger than all operands.
    """

    def apply(*values: Values) -> Any:
        if any(map(_is_float, values)):
            raise CannotEvaluate("floats in another order than Python's")
        is_large = any(value.dtype == object for value in values)
        if grows and not is_large:
            estimate = np.asarray(function(*(value.astype(float) for value in values)))
            is_large = bool((np.abs(estimate) >= _SMALL_INTEGERS).any())
        if is_large:
            try:
                return function(*map(_as_python_integers, values))
            except ZeroDivisionError as error:
                raise CannotEvaluate("a division by zero") from error
        return function(*values)

    return apply


def _for_many(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(first: Any, *others: Any) -> Any:
        for other in others:
            first = np.asarray(function(first, other))
        return first

    return apply


def _multiply(*factors: Values) -> Any:
    """Return the product; of floats, only the negated one, which is exact."""
    if len(factors) == 2 and any(map(_is_float, factors)):
        sign, value = sorted(factors, key=_is_float)
        if not _is_float(sign) and sign.ndim == 0 and sign == -1:
            return -value
    return _for_many(_on_integers(np.multiply))(*factors)


def _power(base: Values, exponent: Values) -> Any:
    if not _is_float(exponent) and (exponent < 0).any():
        raise CannotEvaluate("a negative power")
    return _on_integers(np.power)(base, exponent)


def _true_divide(value: Values, by: Values) -> Any:
    """Divide integers as Python does, which rounds once."""
    if (np.abs(np.asarray([value.max(), value.min(), by.max(), by.min()], dtype=float)) >= 2**53).any():
        value, by = _as_python_integers(value), _as_python_integers(by)
        if not by.all():
            raise CannotEvaluate("a division by zero")
    return np.asarray(np.true_divide(value, by), dtype=float)


def _to_integer(round_off: Callable[[Any], Any]) -> Callable[[Values], Values]:
    def apply(values: Values) -> Values:
        if not _is_float(values):
            return values
        if not (np.abs(values) < _SMALL_INTEGERS).all():
            raise CannotEvaluate("a float that is no integer of 64 bits")
        return np.asarray(round_off(values)).astype(np.int64)

    return apply


# By the names of sympy's functions and of torch's own (torch.utils._sympy.functions).
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": _for_many(_on_integers(np.add)),
    "Mul": _multiply,
    "Pow": _power,
    "PowByNatural": _power,
    "Mod": _on_integers(np.mod, grows=False),
    "PythonMod": _on_integers(np.mod, grows=False),
    "FloorDiv": _on_integers(np.floor_divide, grows=False),
    "CleanDiv": _on_integers(np.floor_divide, grows=False),
    "CeilDiv": _on_integers(lambda value, by: -np.floor_divide(-value, by), grows=False),
    "BitwiseFn_bitwise_and": np.bitwise_and,
    "BitwiseFn_bitwise_or": np.bitwise_or,
    "BitwiseFn_bitwise_xor": np.bitwise_xor,
    "IntTrueDiv": _true_divide,
    "ToFloat": lambda value: np.asarray(value, dtype=float),
    "TruncToInt": _to_integer(np.trunc),
    "TruncToFloat": np.trunc,
    "FloorToInt": _to_integer(np.floor),
    "floor": _to_integer(np.floor),
    "CeilToInt": _to_integer(np.ceil),
    "ceiling": _to_integer(np.ceil),
    "RoundToInt": _to_integer(np.rint),
    "Identity": lambda value: value,
    "Abs": np.abs,
    "Max": _for_many(np.maximum),
    "Min": _for_many(np.minimum),
    "Equality": np.equal,
    "Unequality": np.not_equal,
    "StrictLessThan": np.less,
    "LessThan": np.less_equal,
    "StrictGreaterThan": np.greater,
    "GreaterThan": np.greater_equal,
    "And": _for_many(np.logical_and),
    "Or": _for_many(np.logical_or),
    "Not": np.logical_not,
}
