"""Known truths: values of which all elements are true, or none is negative, or all are zero, whatever the sizes.

`nn.Transformer` asks whether the mask that it gets is the causal one, and makes that one anew to compare them. Both are
the same value where the caller made it by torch's own function. transformers asks whether a mask hides anything, and
leaves it out where it does not: there the artifact, which has the mask, adds zeros to what attention compares.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import Operands, tensors_in

_FILLING = {"full", "zeros", "ones", "arange", "scalar_tensor", "new_zeros", "new_ones"}
# What they give has no elements but those of the tensors that they take.
_CHOOSING = {"view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "unsqueeze", "squeeze", "transpose",
             "permute", "t", "slice", "select", "cat", "stack", "repeat", "clone"}  # fmt: skip
# What they give has no elements but those of the tensors that they take, and zeros.
_REARRANGING = {*_CHOOSING, "triu", "tril"}
_PICKING = {"index", "gather", "index_select"}  # elements of the first of the tensors that they take
_AND = {"bitwise_and", "logical_and", "__and__"}
# Of floats that are finite, these make none that is NaN, unless one overflows.
_KEEP_FINITE = {*_CHOOSING, *_PICKING, "embedding", "linear", "mm", "bmm", "addmm", "matmul", "add", "sub", "mul",
                "rsub", "neg", "native_layer_norm", "gelu", "relu", "silu", "tanh", "sigmoid", "_softmax", "_to_copy",
                "native_dropout"}  # fmt: skip
# Higher powers overflow soon, and models have none. A choice.
_POWER_MAX = 4
# Of a datatype that holds every size.
_COUNTING = {torch.int32, torch.int64, torch.float32, torch.float64}
_ATTENTION, _ATTENDED = "_scaled_dot_product_flash_attention_for_cpu", 3  # of query, key and value

NumberOf = Callable[[torch.Tensor], int]


class KnownTruths:
    """What is known of the values of one run, by their numbers."""

    def __init__(self, number_of: NumberOf, holds_finite: Callable[[int], bool], assumed: Iterable[int] = ()) -> None:
        """`number_of` returns the value number of a tensor; `holds_finite` says whether a number is that of a tensor
        that the model holds, which is finite. `assumed` are numbers of values that are taken as true.
        """
        self.assumed = {*assumed}
        self._number_of = number_of
        self._holds_finite = holds_finite
        self._without_nan: set[int] = set()
        self._true: set[int] = {*assumed}
        self._not_negative: set[int] = set()
        self._zero: set[int] = set()
        self._finite: set[int] = set()  # of floats: those that no input can make NaN
        self._all_of: dict[int, int] = {}  # by the number of a result of `all`: the number of what it asks about

    def is_true(self, tensor: torch.Tensor) -> bool:
        """Whether all elements of the tensor are true."""
        return self._number_of(tensor) in self._true

    def are_equal(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        """Whether two tensors are the same value, and no NaN is in it, which equals nothing."""
        return self._number_of(first) == self._number_of(second) and self._has_no_nan(first)

    def assume(self, tensor: torch.Tensor) -> None:
        """Take the tensor as true from now on: the run goes on as it does where that is so."""
        number = self._number_of(tensor)
        self.assumed |= {number, self._all_of.get(number, number)}
        self._true |= self.assumed

    def without_zero_mask(self, name: str, operands: Operands) -> Operands:
        """Return the operands of an operator, for attention without a mask that is only added, and is zero.

        torch's kernel answers a NaN otherwise beside such a mask. So the mask stays where there may be one.
        """
        if name != _ATTENTION or not all(self._is_finite(value) for _, value in operands[:_ATTENDED]):
            return operands
        return [(argument, None if self._is_zero_mask(argument, value) else value) for argument, value in operands]

    def note(self, name: str, values: Sequence[Any], result: Any) -> None:
        """Note what is known of the result of an operator with these operands, which wrote into none of them."""
        tensors = [*tensors_in(values)]
        if self._keeps_finite(name, values, tensors):
            self._finite.update(map(self._number_of, tensors_in([result])))
        if not isinstance(result, torch.Tensor):
            return
        number = self._number_of(result)
        if name in _FILLING:
            self._note_filled(name, values, result, has_tensors=bool(tensors))
            return
        if not tensors:
            return
        if name in _REARRANGING and all(one.dtype == result.dtype and self._has_no_nan(one) for one in tensors):
            self._without_nan.add(number)
        if self._is_true_result(name, values, tensors, result):
            self._true.add(number)
        if self._is_not_negative_result(name, values, tensors):
            self._not_negative.add(number)
        if self._is_zero_result(name, tensors):
            self._zero.add(number)
        if name == "all" and len(values) == 1:
            self._all_of[number] = self._number_of(tensors[0])

    def _note_filled(self, name: str, values: Sequence[Any], result: torch.Tensor, *, has_tensors: bool) -> None:
        number = self._number_of(result)
        if not has_tensors and not any(_may_be_nan(value) for value in values):
            self._without_nan.add(number)
        plain = [value for value in values if not isinstance(value, torch.Tensor)]
        match name:
            case "ones" | "new_ones":
                self._true.add(number)
            case "zeros" | "new_zeros":
                self._zero.add(number)
            case "scalar_tensor" if type(plain[0]) in (bool, int, float) and plain[0] == 0:
                self._zero.add(number)
            case "arange" if result.dtype in _COUNTING and _counts_up(values):
                self._not_negative.add(number)

    def _is_true_result(
        self, name: str, values: Sequence[Any], tensors: Sequence[torch.Tensor], result: torch.Tensor
    ) -> bool:
        if name == "all":
            return self.is_true(tensors[0])
        if name == "eq" and len(tensors) == 2:
            return self.are_equal(*tensors)
        if name == "ge" and type(values[1]) is int and values[1] <= 0:
            return self._number_of(tensors[0]) in self._not_negative
        if name == "_to_copy":
            return result.dtype == torch.bool and self.is_true(tensors[0])
        if name in _AND:
            return len(tensors) == 2 and result.dtype == torch.bool and all(map(self.is_true, tensors))
        if name in _PICKING:
            return self.is_true(tensors[0])
        return name in _CHOOSING and all(map(self.is_true, tensors))

    def _is_not_negative_result(self, name: str, values: Sequence[Any], tensors: Sequence[torch.Tensor]) -> bool:
        if any(self._number_of(one) not in self._not_negative for one in tensors):
            return False
        if name == "add":  # only with 0: a larger number may leave the datatype's range
            return values[1] == 0 if type(values[1]) is int else False
        return name in _CHOOSING

    def _keeps_finite(self, name: str, values: Sequence[Any], tensors: Sequence[torch.Tensor]) -> bool:
        """Whether no float of an operator's results can be NaN: they follow from floats of which none can."""
        if name == _ATTENTION:
            mask = [one for one in tensors[_ATTENDED:] if self._number_of(one) not in self._zero]
            return not mask and all(map(self._is_finite, tensors[:_ATTENDED]))
        if name == "pow":
            return _is_whole_power(values) and self._is_finite(values[0])
        if name not in _KEEP_FINITE:
            return False
        numbers = [value for value in values if isinstance(value, float | torch.SymFloat)]
        if not all(type(one) is float and math.isfinite(one) for one in numbers):
            return False
        return all(map(self._is_finite, tensors)) and not (name == "native_layer_norm" and 0.0 in numbers)

    def _is_finite(self, value: Any) -> bool:
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return True
        number = self._number_of(value)
        return number in self._finite or number in self._zero or self._holds_finite(number)

    def _is_zero_result(self, name: str, tensors: Sequence[torch.Tensor]) -> bool:
        if name == "where":
            return len(tensors) == 3 and self.is_true(tensors[0]) and self._number_of(tensors[1]) in self._zero
        return name in _CHOOSING and all(self._number_of(one) in self._zero for one in tensors)

    def _is_zero_mask(self, argument: Any, value: Any) -> bool:
        return argument.name == "attn_mask" and isinstance(value, torch.Tensor) and self._number_of(value) in self._zero

    def _has_no_nan(self, tensor: torch.Tensor) -> bool:
        is_number = not (tensor.is_floating_point() or tensor.is_complex())
        return is_number or self._number_of(tensor) in self._without_nan


def _is_whole_power(values: Sequence[Any]) -> bool:
    """Whether a tensor is raised to a whole number that is not negative. A root may be NaN, and 1 / 0 is infinite."""
    exponent = values[1]
    return isinstance(values[0], torch.Tensor) and type(exponent) in (int, float) and exponent in range(_POWER_MAX + 1)


def _may_be_nan(value: Any) -> bool:
    return isinstance(value, complex | torch.SymFloat) or (isinstance(value, float) and math.isnan(value))


def _counts_up(values: Sequence[Any]) -> bool:
    """Whether these operands of `arange` make it begin at 0 or above and step upwards: an end alone does."""
    numbers = [value for value in values if type(value) in (int, float, torch.SymInt, torch.SymFloat)]
    start = 0 if len(numbers) == 1 else numbers[0]
    step = numbers[2] if len(numbers) == 3 else 1
    return type(start) is type(step) is int and start >= 0 and step > 0
