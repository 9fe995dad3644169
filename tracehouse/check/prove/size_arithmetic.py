"""Size arithmetic: floats computed from sizes, each operation as the side that makes it does.

Python computes in doubles; an operator of torch computes in the datatype of its result, on tensors without dims.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy
import torch

# So many distinct values at most are computed one by one.
_ONE_BY_ONE_MAX = 2**17

Values = npt.NDArray[Any]


class CannotEvaluate(Exception):
    """A value that is not known here at some size."""


@dataclass(frozen=True)
class Operation:
    """An operation on numbers. `compute` takes and returns arrays with a value for each size; CannotEvaluate is raised
    where there is none."""

    name: str
    compute: Callable[..., Values] = field(compare=False)


@dataclass(frozen=True)
class Computation:
    """How a float was computed: the operation, and the expressions of its operands."""

    operation: Operation
    operands: tuple[sympy.Basic, ...]


def torch_operation(name: str, dtypes: Sequence[torch.dtype | None], result: torch.dtype) -> Operation:
    """Return the operation of torch's operator on tensors without dims of these datatypes; None is a plain number."""
    key = f"{name}({', '.join(map(str, dtypes))}) -> {result}"
    if name in _ROUNDED_ONCE:  # on many values at once it gives what it gives on each
        function = getattr(torch, name)
        return Operation(key, lambda *values: _compute_in(function, result, values))
    function = getattr(torch.ops.aten, name)

    def compute(*values: Any) -> float:
        operands = [
            value if dtype is None else torch.tensor(value, dtype=dtype)
            for value, dtype in zip(values, dtypes, strict=True)
        ]
        return float(function(*operands))

    return Operation(key, _one_by_one(compute))


def conversion(dtype: torch.dtype) -> Operation:
    """Return the operation that rounds a number to a floating point datatype."""
    return Operation(f"to {dtype}", lambda value: _compute_in(lambda tensor: tensor, dtype, [value]))


def _compute_in(function: Callable[..., torch.Tensor], dtype: torch.dtype, values: Sequence[Values]) -> Values:
    if any(value.dtype == object for value in values):
        raise CannotEvaluate("integers of more than 64 bits")
    result = function(*(torch.from_numpy(np.array(value)).to(dtype) for value in values))
    return np.asarray(result.to(torch.float64).numpy())


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Values]:
    def compute(*values: Values) -> Values:
        every = np.broadcast_arrays(*values)
        distinct, places = np.unique(np.stack([array.ravel() for array in every]), axis=1, return_inverse=True)
        if distinct.shape[1] > _ONE_BY_ONE_MAX:
            raise CannotEvaluate("too many values to compute one by one")
        columns = (row.astype(array.dtype).tolist() for row, array in zip(distinct, every, strict=True))
        try:
            results = [float(function(*one)) for one in zip(*columns, strict=True)]
        except (ArithmeticError, ValueError, TypeError) as error:
            raise CannotEvaluate(str(error)) from error
        return np.asarray(results, dtype=float)[places.ravel()].reshape(every[0].shape)

    return compute


def _in_doubles(function: Callable[..., Any]) -> Callable[..., Values]:
    def compute(*values: Values) -> Values:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(np.asarray(value, dtype=float) for value in values)))

    return compute


# Each of them rounds its exact result once, so that it gives one value on every processor.
_ROUNDED_ONCE = {"add", "sub", "mul", "div", "true_divide", "neg"}
# Python's, by the names of torch's methods of symbolic numbers.
PYTHON_OPERATIONS = {
    "add": Operation("add", _in_doubles(np.add)),
    "sub": Operation("sub", _in_doubles(np.subtract)),
    "mul": Operation("mul", _in_doubles(np.multiply)),
    "float_truediv": Operation("truediv", _in_doubles(np.true_divide)),
    "sym_sqrt": Operation("sqrt", _in_doubles(np.sqrt)),
    "mod": Operation("mod", _one_by_one(operator.mod)),
    "float_pow": Operation("pow", _one_by_one(operator.pow)),
}
PYTHON_FLOOR_DIVISION = Operation("floordiv", _one_by_one(operator.floordiv))
# TorchScript's own, on numbers.
SCRIPT_FLOOR_DIVISION = Operation("script floordiv", _in_doubles(lambda value, by: np.floor(np.true_divide(value, by))))
