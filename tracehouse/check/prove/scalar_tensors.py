"""Scalar tensors: tensors without dims that stand for numbers. A trace has one for each number computed from a size."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.check.prove.size_operators import DTYPES
from tracehouse.check.prove.symbols import SYMBOLIC, is_fake

# Integers below 2**24 are exact in each of these datatypes (float32 has 24 bits of significand), and so are the integer
# parts of their quotients: a quotient of two of them that is no integer differs from every integer by at least 2**-24
# of itself.
_EXACT_BELOW = 2**24
_EXACT = (torch.float32, torch.float64)


class Unsupported(Exception):
    """A node, or a use of it, that is not run here: its result is not known."""


@dataclass(frozen=True)
class ScalarTensor:
    """A tensor without dims whose value is a number, or a symbolic number.

    If its datatype is a floating point one, `integer` is the value as an integer, where it is one, and `quotient` are
    the two integers that were divided to get it, where they were.
    """

    value: Any
    dtype: torch.dtype
    integer: Any = None
    quotient: tuple[Any, Any] | None = None


def compute(kind: str, values: Sequence[Any]) -> Any:
    """Return the result of the operator of that kind, a ScalarTensor.

    Raises Unsupported if the operator is not known here, or its result might be rounded.
    """
    name = kind.removeprefix("aten::")
    numbers = [_as_scalar(value) for value in values]
    first = numbers[0]
    if name in _IDENTITIES:
        return first
    if name in ("to", "_to_copy", "type_as"):
        return _cast(numbers)
    if name in ("ceil", "floor"):
        return _round(name, first)
    if name in _CLAMPS:
        return _clamp(*_CLAMPS[name](*numbers))
    if name not in ARITHMETIC or not all(isinstance(number, ScalarTensor) for number in numbers[:2]):
        raise Unsupported(f"{kind} of a size")
    if name == "div" and len(numbers) > 2:
        return _divide_and_round(numbers)
    return _calculate(name, numbers)


def as_tensor(number: ScalarTensor) -> torch.Tensor:
    """Return the tensor, without dims, that the scalar tensor stands for."""
    tensor: torch.Tensor = torch.ops.aten.scalar_tensor.default(number.value, dtype=number.dtype)
    return tensor


def from_number(value: Any) -> ScalarTensor:
    """Return the scalar tensor for a number, as prim::NumToTensor does."""
    return ScalarTensor(value, torch.float64 if isinstance(value, float | torch.SymFloat) else _dtype_of(value))


def to_integer(number: ScalarTensor) -> Any:
    """Return the scalar tensor's value as an integer, as aten::Int does.

    Raises Unsupported if torch might round the value differently than Python.
    """
    if not number.dtype.is_floating_point:
        return number.value
    if number.integer is None:
        raise Unsupported("aten::Int of a size that was divided")
    return number.integer


def _calculate(name: str, numbers: Sequence[Any]) -> ScalarTensor:
    first, second, factor = [*numbers, None, None][:3]
    if isinstance(factor, ScalarTensor) and factor.value != 1:  # alpha
        second = _calculate("mul", [second, factor])
    operands = [number for number in (first, second) if number is not None]
    result = ARITHMETIC[name](*(number.value for number in operands))
    dtype = _result_dtype(name, operands)
    if dtype not in _EXACT:
        return ScalarTensor(result, dtype)
    integers = [_integer_or_none(number) for number in operands]
    if any(integer is None for integer in integers):
        return ScalarTensor(result, dtype)
    if name in _DIVISIONS:
        return ScalarTensor(result, dtype, quotient=(integers[0], integers[1]))
    if name in _INTEGER_OF_INTEGERS:
        return _from_integer(ARITHMETIC[name](*integers), dtype)
    return ScalarTensor(result, dtype)


def _from_integer(value: Any, dtype: torch.dtype) -> ScalarTensor:
    """Return the scalar tensor for an integer in a floating point datatype.

    If it is symbolic, this adds the condition whether it is small enough to be exact; if it is too large, the result
    has no `integer`.
    """
    is_exact = bool(value > -_EXACT_BELOW) and bool(value < _EXACT_BELOW)
    return ScalarTensor(torch.sym_float(value), dtype, integer=value if is_exact else None)


def _integer_or_none(number: ScalarTensor) -> Any:
    if not number.dtype.is_floating_point:
        return number.value
    if isinstance(number.value, float) and number.value.is_integer():
        return int(number.value)
    return number.integer


def _round(name: str, number: Any) -> ScalarTensor:
    if not isinstance(number, ScalarTensor):
        raise Unsupported(f"aten::{name} of a size")
    if not number.dtype.is_floating_point or number.integer is not None:
        return number
    if number.quotient is None or number.dtype not in _EXACT:
        raise Unsupported(f"aten::{name} of a size")
    above, below = number.quotient
    if not (bool(above >= 0) and bool(above < _EXACT_BELOW) and bool(below > 0) and bool(below < _EXACT_BELOW)):
        raise Unsupported(f"aten::{name} of a size that is negative or large")
    return _from_integer(above // below if name == "floor" else (above + below - 1) // below, number.dtype)


def _clamp(number: Any, low: Any, high: Any) -> ScalarTensor:
    """Clamp an integer between integers. Raises Unsupported for other numbers."""
    given_bounds = [bound for bound in (low, high) if bound is not None]
    if not all(isinstance(one, ScalarTensor) for one in (number, *given_bounds)):
        raise Unsupported("aten::clamp of a size")
    value = _integer_or_none(number)
    bounds: list[tuple[Any, Any]] = [(low, torch.sym_max), (high, torch.sym_min)]
    for bound, choose in bounds:
        if bound is not None:
            limit = _integer_or_none(bound)
            if value is None or limit is None or (bound.dtype.is_floating_point and not number.dtype.is_floating_point):
                raise Unsupported("aten::clamp of a size that is no whole number")
            value = choose(value, limit)
    return _from_integer(value, number.dtype) if number.dtype.is_floating_point else ScalarTensor(value, number.dtype)


def _divide_and_round(numbers: Sequence[Any]) -> ScalarTensor:
    first, second, rounding = numbers
    dtype = torch.promote_types(first.dtype, second.dtype)
    if dtype.is_floating_point:
        raise Unsupported("aten::div of a size that is no whole number")
    match rounding:
        case "floor":
            return ScalarTensor(first.value // second.value, dtype)
        case "trunc" if bool(first.value >= 0) and bool(second.value > 0):
            return ScalarTensor(first.value // second.value, dtype)
    raise Unsupported("aten::div of a size")


def _as_scalar(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if is_fake(value):
            raise Unsupported("a tensor beside a size")
        return ScalarTensor(value.item(), value.dtype)
    if isinstance(value, (bool, int, float, *SYMBOLIC)):
        return ScalarTensor(value, _dtype_of(value))
    return value


def _dtype_of(value: Any) -> torch.dtype:
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.get_default_dtype() if isinstance(value, float | torch.SymFloat) else torch.int64


def _result_dtype(name: str, numbers: Sequence[ScalarTensor]) -> torch.dtype:
    if name in _COMPARISONS:
        return torch.bool
    dtype = numbers[0].dtype
    if len(numbers) > 1:
        dtype = torch.promote_types(dtype, numbers[1].dtype)
    if name in _DIVISIONS | {"sqrt", "rsqrt", "reciprocal"} and not dtype.is_floating_point:
        return torch.get_default_dtype()
    return dtype


def _cast(numbers: Sequence[Any]) -> ScalarTensor:
    first: ScalarTensor = numbers[0]
    wanted = numbers[1]
    if isinstance(wanted, ScalarTensor):
        wanted = DTYPES.get(int(wanted.value)) if isinstance(wanted.value, int) else None
    if not isinstance(wanted, torch.dtype):
        dtypes = [number for number in numbers[1:] if isinstance(number, ScalarTensor) and type(number.value) is int]
        wanted = DTYPES.get(dtypes[0].value) if dtypes else first.dtype
    if wanted is None:
        raise Unsupported("aten::to of a size")
    if wanted.is_floating_point and not first.dtype.is_floating_point:
        return (
            _from_integer(first.value, wanted)
            if wanted in _EXACT
            else ScalarTensor(torch.sym_float(first.value), wanted)
        )
    if wanted is first.dtype:
        return first
    if wanted.is_floating_point and first.dtype.is_floating_point:
        return ScalarTensor(first.value, wanted, integer=first.integer if wanted in _EXACT else None)
    if wanted in _INTEGERS and first.dtype in _INTEGERS:
        return ScalarTensor(first.value, wanted)
    if wanted in _INTEGERS and first.integer is not None:
        return ScalarTensor(first.integer, wanted)
    raise Unsupported(f"aten::to of a size, to {wanted}")


_IDENTITIES = {"detach", "clone", "contiguous", "alias", "lift_fresh"}
_DIVISIONS = {"div", "true_divide"}
_INTEGERS = (torch.int32, torch.int64)
# On floating point numbers that are integers, their result is the integer that they give on integers.
_INTEGER_OF_INTEGERS = {"add", "sub", "rsub", "mul", "neg", "floor_divide", "maximum", "minimum", "max", "min"}
_CLAMPS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "clamp": lambda number, low=None, high=None: (number, low, high),
    "clamp_min": lambda number, low: (number, low, None),
    "clamp_max": lambda number, high: (number, None, high),
}
_COMPARISONS = {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equal",
    "__and__",
    "__or__",
    "logical_and",
    "logical_or",
    "logical_not",
}
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "rsub": lambda first, second: second - first,
    "mul": operator.mul,
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "neg": operator.neg,
    "pow": operator.pow,
    "sqrt": torch.sym_sqrt,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "maximum": torch.sym_max,
    "minimum": torch.sym_min,
    "max": torch.sym_max,
    "min": torch.sym_min,
}
