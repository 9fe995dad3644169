"""Scalar tensors: tensors without dims that stand for numbers. A trace has one for each number computed from a size."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tracehouse.check.prove.size_arithmetic import conversion, torch_operation
from tracehouse.check.prove.size_operators import DTYPES
from tracehouse.check.prove.symbols import SYMBOLIC, compute_for_real, has_bounds, is_fake
from tracehouse.check.prove.symbols import compute as compute_float

# Integers below 2**24 are exact in each of these datatypes (float32 has 24 bits of significand), and so are the integer
# parts of their quotients: a quotient of two of them that is no integer differs from every integer by at least 2**-24
# of itself.
_EXACT_BELOW = 2**24
_EXACT = (torch.float32, torch.float64)


class Unsupported(Exception):
    """A node, or a use of it, that is not run here: its result is not known."""


@dataclass
class ScalarTensor:
    """A tensor without dims whose value is a number, or a symbolic number.

    A write changes it for all that hold it, as it does a tensor. If its datatype is a floating point one, `integer` is
    the value as an integer, where it is one, and `quotient` are the two integers that were divided to get it, where
    they were. `is_number` says that it stands for a number of the graph, which does not choose the datatype of a result
    as a tensor does.
    """

    value: Any
    dtype: torch.dtype
    integer: Any = None
    quotient: tuple[Any, Any] | None = None
    is_number: bool = False

    def write(self, other: "ScalarTensor") -> None:
        """Take the value of the other, which must have the same datatype."""
        if other.dtype is not self.dtype:
            raise Unsupported("a write of another datatype into a size")
        self.value, self.integer, self.quotient = other.value, other.integer, other.quotient


def compute(kind: str, values: Sequence[Any]) -> Any:
    """Return the result of the operator of that kind, a ScalarTensor.

    Raises Unsupported if the operator is not known here, or its result might be rounded.
    """
    name = kind.removeprefix("aten::")
    if name.removesuffix("_") in ARITHMETIC and name.endswith("_"):
        return _compute_in_place(kind, values)
    numbers = [_as_scalar(value) for value in values]
    first = numbers[0]
    if name in _IDENTITIES:
        return first
    if name == "clone":
        return replace(first)
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


def _compute_in_place(kind: str, values: Sequence[Any]) -> ScalarTensor:
    """Write the operator's result into the first value, and return that, as torch does."""
    written = values[0]
    if not isinstance(written, ScalarTensor):
        raise Unsupported(f"{kind} of a size")
    written.write(compute(kind.removesuffix("_"), values))
    return written


def as_tensor(number: ScalarTensor) -> torch.Tensor:
    """Return the tensor, without dims, that the scalar tensor stands for."""
    tensor: torch.Tensor = torch.ops.aten.scalar_tensor.default(number.value, dtype=number.dtype)
    return tensor


def from_number(value: Any) -> ScalarTensor:
    """Return the scalar tensor for a number, as prim::NumToTensor does."""
    return ScalarTensor(value, torch.float64 if isinstance(value, float | torch.SymFloat) else _dtype_of(value))


def from_symbol(value: Any, dtype: torch.dtype) -> ScalarTensor:
    """Return the scalar tensor of this datatype for a symbolic number. Raises Unsupported."""
    return replace(_cast([from_number(value), dtype]), is_number=False)


def to_integer(number: ScalarTensor) -> Any:
    """Return the scalar tensor's value as an integer, as aten::Int does."""
    if number.dtype is torch.bool:
        return int(bool(number.value))
    if not number.dtype.is_floating_point:
        return number.value
    return torch.sym_int(number.value) if number.integer is None else number.integer


def keep_bounds(value: Any, dtype: torch.dtype = torch.int64) -> Any:
    """Return an integer of torch's, which is what Python computes only where the datatype holds it.

    Adds the condition that it does; raises Unsupported where it does not.
    """
    bounds = torch.iinfo(dtype)
    if isinstance(value, torch.SymInt):
        is_held = has_bounds(value, bounds.min, bounds.max)
    else:
        is_held = type(value) is int and bounds.min <= value <= bounds.max
    if not is_held:
        raise Unsupported(f"a number that {dtype} does not hold")
    return value


def _calculate(name: str, numbers: Sequence[Any]) -> ScalarTensor:
    first, second, factor = [*numbers, None, None][:3]
    operands: list[ScalarTensor] = [number for number in (first, second) if number is not None]
    dtype = _common_dtype(operands)
    if isinstance(factor, ScalarTensor) and factor.value != 1:  # alpha
        if dtype.is_floating_point:
            raise Unsupported("alpha beside floats that are computed from sizes")
        operands[1] = _calculate("mul", [second, factor])
    if name in _COMPARISONS:
        return ScalarTensor(ARITHMETIC[name](*(_value_in(number, dtype) for number in operands)), torch.bool)
    if name in _FLOAT_OF_INTEGERS and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    if dtype is torch.bool:
        raise Unsupported(f"aten::{name} of truths")
    if not dtype.is_floating_point:
        return ScalarTensor(keep_bounds(ARITHMETIC[name](*map(_plain_value, operands)), dtype), dtype)
    return _calculate_float(name, operands, dtype)


def _calculate_float(name: str, operands: Sequence[ScalarTensor], dtype: torch.dtype) -> ScalarTensor:
    integers = [_integer_or_none(number) for number in operands]
    are_integers = dtype in _EXACT and not any(integer is None for integer in integers)
    if are_integers and name in _INTEGER_OF_INTEGERS:
        result = _from_integer(ARITHMETIC[name](*integers), dtype)
        if result.integer is not None:
            return result
    operation = torch_operation(name, [None if number.is_number else number.dtype for number in operands], dtype)
    value = compute_float(operation, [*map(_plain_value, operands)])
    quotient = (integers[0], integers[1]) if are_integers and name in _DIVISIONS else None
    return ScalarTensor(value, dtype, quotient=quotient)


def _from_integer(value: Any, dtype: torch.dtype) -> ScalarTensor:
    """Return the scalar tensor for an integer in a floating point datatype.

    If it is symbolic, this adds the condition whether it is small enough to be exact; if it is too large, the result
    has no `integer`.
    """
    if dtype in _EXACT and bool(value > -_EXACT_BELOW) and bool(value < _EXACT_BELOW):
        return ScalarTensor(torch.sym_float(value), dtype, integer=value)
    return ScalarTensor(compute_float(conversion(dtype), [value]), dtype)


def _plain_value(number: ScalarTensor) -> Any:
    """Return its value, and an integer for a truth, as torch computes with it beside other numbers."""
    return int(bool(number.value)) if number.dtype is torch.bool else number.value


def _value_in(number: ScalarTensor, dtype: torch.dtype) -> Any:
    """Return its value in the datatype in which it is compared."""
    if dtype.is_floating_point and number.integer is None:
        return compute_float(conversion(dtype), [_plain_value(number)])
    return number.value


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
    if number.dtype not in _EXACT:
        raise Unsupported(f"aten::{name} of a size")
    if number.quotient is None:
        return _from_integer((math.floor if name == "floor" else math.ceil)(number.value), number.dtype)
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
    dtype = _common_dtype([first, second])
    if dtype.is_floating_point or dtype is torch.bool:
        raise Unsupported("aten::div of a size that is no whole number")
    match rounding:
        case "floor":
            return ScalarTensor(keep_bounds(first.value // second.value, dtype), dtype)
        case "trunc" if bool(first.value >= 0) and bool(second.value > 0):
            return ScalarTensor(keep_bounds(first.value // second.value, dtype), dtype)
    raise Unsupported("aten::div of a size")


def _as_scalar(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if is_fake(value):
            raise Unsupported("a tensor beside a size")
        return ScalarTensor(value.item(), value.dtype)
    if isinstance(value, (bool, int, float, *SYMBOLIC)):
        return ScalarTensor(value, _dtype_of(value), is_number=True)
    return value


def _dtype_of(value: Any) -> torch.dtype:
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.get_default_dtype() if isinstance(value, float | torch.SymFloat) else torch.int64


def _common_dtype(numbers: Sequence[ScalarTensor]) -> torch.dtype:
    """Return the datatype in which torch computes with these."""
    examples = [_example_of(number) for number in numbers]
    if len(examples) == 1:
        return numbers[0].dtype
    with compute_for_real():
        return torch.result_type(examples[0], examples[1])


def _example_of(number: ScalarTensor) -> Any:
    if not number.is_number:
        with compute_for_real():
            return torch.empty((), dtype=number.dtype)
    return 1.0 if number.dtype.is_floating_point else True if number.dtype is torch.bool else 1


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
        return _from_integer(_plain_value(first), wanted)
    if wanted is first.dtype:
        return replace(first, is_number=False) if first.is_number else first
    if wanted.is_floating_point:
        if first.integer is not None and wanted in _EXACT:
            return ScalarTensor(first.value, wanted, integer=first.integer)
        return ScalarTensor(compute_float(conversion(wanted), [first.value]), wanted)
    if wanted in _INTEGERS:
        return ScalarTensor(keep_bounds(to_integer(first), wanted), wanted)
    raise Unsupported(f"aten::to of a size, to {wanted}")


_IDENTITIES = {"detach", "contiguous", "alias", "lift_fresh"}
_DIVISIONS = {"div", "true_divide"}
_FLOAT_OF_INTEGERS = _DIVISIONS | {"sqrt", "rsqrt", "reciprocal"}
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
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
    "rsqrt": lambda value: 1 / torch.sym_sqrt(value),
    "reciprocal": lambda value: 1 / value,
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
