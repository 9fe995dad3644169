"""Tensors of no dims that stand for numbers, as a trace has one for each number that it computes with a size."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tracehouse.check.prove.size_operators import DTYPES
from tracehouse.check.prove.symbols import SYMBOLIC, is_fake

# Whole numbers below it, and the whole parts of their quotients, are exact in each floating point datatype named here:
# a quotient of two that is not whole is at least 2**-24 of itself away from what is.
_EXACT_BELOW = 2**24
_EXACT = (torch.float32, torch.float64)


class Unsupported(Exception):
    """A node, or a use of it, that is not run here: what it gives is not known."""


@dataclass(frozen=True)
class NumberTensor:
    """`value` is a number or a symbolic one. Of a floating point datatype, `whole` is the same as a whole number, where
    it is one, and `quotient` the two whole numbers that it was divided from."""

    value: Any
    dtype: torch.dtype
    whole: Any = None
    quotient: tuple[Any, Any] | None = None


def computed(kind: str, values: Sequence[Any]) -> Any:
    """What an operator of that kind gives. Raises Unsupported."""
    name = kind.removeprefix("aten::")
    numbers = [_as_number(value) for value in values]
    first = numbers[0]
    if name in _SAME:
        return first
    if name in ("to", "_to_copy", "type_as"):
        return _cast(numbers)
    if name in ("ceil", "floor"):
        return _rounded(name, first)
    if name in _CLAMPS:
        return _clamped(*_CLAMPS[name](*numbers))
    if name not in ARITHMETIC or not all(isinstance(number, NumberTensor) for number in numbers[:2]):
        raise Unsupported(f"{kind} of a size")
    if name == "div" and len(numbers) > 2:
        return _divided(numbers)
    return _calculated(name, numbers)


def as_tensor(number: NumberTensor) -> torch.Tensor:
    made: torch.Tensor = torch.ops.aten.scalar_tensor.default(number.value, dtype=number.dtype)
    return made


def of_number(value: Any) -> NumberTensor:
    """prim::NumToTensor."""
    return NumberTensor(value, torch.float64 if isinstance(value, float | torch.SymFloat) else _dtype_of(value))


def whole(number: NumberTensor) -> Any:
    """aten::Int, and where a number is wanted of a tensor. Raises Unsupported."""
    if not number.dtype.is_floating_point:
        return number.value
    if number.whole is None:
        raise Unsupported("aten::Int of a size that was divided")  # it may be rounded otherwise than in Python
    return number.whole


def _calculated(name: str, numbers: Sequence[Any]) -> NumberTensor:
    first, second, factor = [*numbers, None, None][:3]
    if isinstance(factor, NumberTensor) and factor.value != 1:  # alpha
        second = _calculated("mul", [second, factor])
    operands = [number for number in (first, second) if number is not None]
    made = ARITHMETIC[name](*(number.value for number in operands))
    dtype = _dtype(name, operands)
    if dtype not in _EXACT:
        return NumberTensor(made, dtype)
    wholes = [_whole_or_none(number) for number in operands]
    if any(one is None for one in wholes):
        return NumberTensor(made, dtype)
    if name in _DIVISIONS:
        return NumberTensor(made, dtype, quotient=(wholes[0], wholes[1]))
    return _of_whole(ARITHMETIC[name](*wholes), dtype) if name in _WHOLE_OF_WHOLES else NumberTensor(made, dtype)


def _of_whole(value: Any, dtype: torch.dtype) -> NumberTensor:
    """Where it is too large to be exact, and where it is not is asked of the symbols in it, it is a number alone."""
    is_exact = bool(value > -_EXACT_BELOW) and bool(value < _EXACT_BELOW)
    return NumberTensor(torch.sym_float(value), dtype, whole=value if is_exact else None)


def _whole_or_none(number: NumberTensor) -> Any:
    if not number.dtype.is_floating_point:
        return number.value
    if isinstance(number.value, float) and number.value.is_integer():
        return int(number.value)
    return number.whole


def _rounded(name: str, number: Any) -> NumberTensor:
    if not isinstance(number, NumberTensor):
        raise Unsupported(f"aten::{name} of a size")
    if not number.dtype.is_floating_point or number.whole is not None:
        return number
    if number.quotient is None or number.dtype not in _EXACT:
        raise Unsupported(f"aten::{name} of a size")
    above, below = number.quotient
    if not (bool(above >= 0) and bool(above < _EXACT_BELOW) and bool(below > 0) and bool(below < _EXACT_BELOW)):
        raise Unsupported(f"aten::{name} of a size that is negative or large")
    return _of_whole(above // below if name == "floor" else (above + below - 1) // below, number.dtype)


def _clamped(number: Any, low: Any, high: Any) -> NumberTensor:
    """Raises Unsupported but for whole numbers."""
    ends = [end for end in (low, high) if end is not None]
    if not all(isinstance(one, NumberTensor) for one in (number, *ends)):
        raise Unsupported("aten::clamp of a size")
    value = _whole_or_none(number)
    bounds: list[tuple[Any, Any]] = [(low, torch.sym_max), (high, torch.sym_min)]
    for end, bound in bounds:
        if end is not None:
            limit = _whole_or_none(end)
            if value is None or limit is None or (end.dtype.is_floating_point and not number.dtype.is_floating_point):
                raise Unsupported("aten::clamp of a size that is no whole number")
            value = bound(value, limit)
    return _of_whole(value, number.dtype) if number.dtype.is_floating_point else NumberTensor(value, number.dtype)


def _divided(numbers: Sequence[Any]) -> NumberTensor:
    first, second, rounding = numbers
    dtype = torch.promote_types(first.dtype, second.dtype)
    if dtype.is_floating_point:
        raise Unsupported("aten::div of a size that is no whole number")
    match rounding:
        case "floor":
            return NumberTensor(first.value // second.value, dtype)
        case "trunc" if bool(first.value >= 0) and bool(second.value > 0):
            return NumberTensor(first.value // second.value, dtype)
    raise Unsupported("aten::div of a size")


def _as_number(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if is_fake(value):
            raise Unsupported("a tensor beside a size")
        return NumberTensor(value.item(), value.dtype)
    if isinstance(value, (bool, int, float, *SYMBOLIC)):
        return NumberTensor(value, _dtype_of(value))
    return value


def _dtype_of(value: Any) -> torch.dtype:
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.get_default_dtype() if isinstance(value, float | torch.SymFloat) else torch.int64


def _dtype(name: str, numbers: Sequence[NumberTensor]) -> torch.dtype:
    if name in _COMPARISONS:
        return torch.bool
    dtype = numbers[0].dtype
    if len(numbers) > 1:
        dtype = torch.promote_types(dtype, numbers[1].dtype)
    if name in _DIVISIONS | {"sqrt", "rsqrt", "reciprocal"} and not dtype.is_floating_point:
        return torch.get_default_dtype()
    return dtype


def _cast(numbers: Sequence[Any]) -> NumberTensor:
    first: NumberTensor = numbers[0]
    wanted = numbers[1]
    if isinstance(wanted, NumberTensor):
        wanted = DTYPES.get(int(wanted.value)) if isinstance(wanted.value, int) else None
    if not isinstance(wanted, torch.dtype):
        dtypes = [number for number in numbers[1:] if isinstance(number, NumberTensor) and type(number.value) is int]
        wanted = DTYPES.get(dtypes[0].value) if dtypes else first.dtype
    if wanted is None:
        raise Unsupported("aten::to of a size")
    if wanted.is_floating_point and not first.dtype.is_floating_point:
        return (
            _of_whole(first.value, wanted) if wanted in _EXACT else NumberTensor(torch.sym_float(first.value), wanted)
        )
    if wanted is first.dtype:
        return first
    if wanted.is_floating_point and first.dtype.is_floating_point:
        return NumberTensor(first.value, wanted, whole=first.whole if wanted in _EXACT else None)
    if wanted in _INTEGERS and first.dtype in _INTEGERS:
        return NumberTensor(first.value, wanted)
    if wanted in _INTEGERS and first.whole is not None:
        return NumberTensor(first.whole, wanted)
    raise Unsupported(f"aten::to of a size, to {wanted}")


_SAME = {"detach", "clone", "contiguous", "alias", "lift_fresh"}
_DIVISIONS = {"div", "true_divide"}
_INTEGERS = (torch.int32, torch.int64)
# Of floating point numbers that are whole, what they give is so too, and the same as of integers.
_WHOLE_OF_WHOLES = {"add", "sub", "rsub", "mul", "neg", "floor_divide", "maximum", "minimum", "max", "min"}
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
