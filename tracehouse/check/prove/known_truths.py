"""Known truths: values of which all elements are true, whatever the sizes.

`nn.Transformer` asks whether the mask that it gets is the causal one, and makes that one anew to compare them. Both are
the same value where the caller made it by torch's own function.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import tensors_in

_FILLING = {"full", "zeros", "ones", "arange"}
# What they give has no elements but those of the tensors that they take, and zeros.
_REARRANGING = {"triu", "tril", "view", "_unsafe_view", "expand", "unsqueeze", "squeeze", "transpose", "permute", "t",
                "slice", "select", "cat", "stack", "repeat"}  # fmt: skip

NumberOf = Callable[[torch.Tensor], int]


class KnownTruths:
    """What is known of the values of one run, by their numbers."""

    def __init__(self, number_of: NumberOf) -> None:
        """`number_of` returns the value number of a tensor."""
        self._number_of = number_of
        self._without_nan: set[int] = set()
        self._true: set[int] = set()

    def is_true(self, tensor: torch.Tensor) -> bool:
        """Whether all elements of the tensor are true."""
        return self._number_of(tensor) in self._true

    def are_equal(self, first: torch.Tensor, second: torch.Tensor) -> bool:
        """Whether two tensors are the same value, and no NaN is in it, which equals nothing."""
        return self._number_of(first) == self._number_of(second) and self._has_no_nan(first)

    def note(self, name: str, values: Sequence[Any], result: Any) -> None:
        """Note what is known of the result of an operator with these operands, which wrote into none of them."""
        if not isinstance(result, torch.Tensor):
            return
        tensors = [*tensors_in(values)]
        if name in _FILLING:
            if not tensors and not any(_may_be_nan(value) for value in values):
                self._without_nan.add(self._number_of(result))
            return
        if not tensors:
            return
        if name in _REARRANGING and all(one.dtype == result.dtype and self._has_no_nan(one) for one in tensors):
            self._without_nan.add(self._number_of(result))
        if name == "all" and self.is_true(tensors[0]):
            self._true.add(self._number_of(result))
        if name == "eq" and len(tensors) == 2 and self.are_equal(*tensors):
            self._true.add(self._number_of(result))

    def _has_no_nan(self, tensor: torch.Tensor) -> bool:
        is_number = not (tensor.is_floating_point() or tensor.is_complex())
        return is_number or self._number_of(tensor) in self._without_nan


def _may_be_nan(value: Any) -> bool:
    return isinstance(value, complex | torch.SymFloat) or (isinstance(value, float) and math.isnan(value))
