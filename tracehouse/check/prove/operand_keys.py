"""Operand keys: an operator's call as the key that its value number is looked up by.

Eager and a trace write some calls in two ways: a size is a Python number or a tensor without dims, `reshape` is `view`,
a default is given or left out. Calls that compute the same get the same key.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch

from tracehouse.check.prove.symbols import SYMBOLIC, are_equal_sizes, compute_for_real
from tracehouse.check.prove.tensor_memory import PLAIN_KINDS, TensorMemory
from tracehouse.check.prove.value_numbers import Key, ValueNumbers

# The resulting shape alone says what these do. Whether they copy memory on the way does not change a value.
_RESHAPING = {"view": "view", "_unsafe_view": "view", "reshape": "view", "_reshape_alias": "view", "expand": "expand"}
CONVOLUTIONS = {"convolution", "_convolution", "convolution_overrideable"}
_CONVOLUTION_OPERANDS = 9  # the further operands of _convolution only choose a kernel
# For these, a number and a tensor without dims that has its value are the same operand, if both lead to the same
# result datatype. `pow` is none of them: by the number 2 torch multiplies, and by the number 0.5 it takes the root.
_PROMOTING = set(
    "add sub rsub mul div true_divide floor_divide remainder fmod eq ne lt le gt ge maximum minimum "
    "bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor __and__ __or__ __xor__ "
    "add_ sub_ mul_ div_ atan2".split()
)
# With its operands the other way round, an operator is another one. Python puts a tensor before a number so.
WITH_NUMBER_SECOND = {
    "add": "add",
    "mul": "mul",
    "sub": "rsub",
    "eq": "eq",
    "ne": "ne",
    "lt": "gt",
    "le": "ge",
    "gt": "lt",
    "ge": "le",
}
_FILLING = {"fill", "fill_", "masked_fill", "masked_fill_"}
# These hold every size. A number that the datatype cannot hold is refused, and a tensor of it is converted.
_HOLD_EVERY_SIZE = {torch.float32, torch.float64, torch.bfloat16, torch.int64}
# The result says these as well. A trace writes them out where Python leaves them to their defaults.
_SAID_BY_RESULT = {"dtype", "layout", "device", "pin_memory", "implicit", "non_blocking"}
# Of these, x and -x are as exact as each other where a number is added to them: float16 numbers are rounded first.
_EXACT_NEGATIVES = {torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_SLICE_TO_THE_END = 2**62  # the end of a slice, from this number on, is the end of the dim

Operands = Sequence[tuple[Any, Any]]  # each argument of an operator's schema, and its value


class OperandKeys:
    """The keys of one run's operator calls."""

    def __init__(self, numbers: ValueNumbers, memory: TensorMemory) -> None:
        self._numbers = numbers
        self._memory = memory

    def call_key(self, name: str, operands: Operands) -> Key:
        """Return the key of a call: the operator's name and a key for each of its operands."""
        if name in CONVOLUTIONS:
            operands = operands[:_CONVOLUTION_OPERANDS]
            name = "convolution"
        values = [
            value for argument, value in operands if not (argument.kwarg_only and argument.name in _SAID_BY_RESULT)
        ]
        if name in WITH_NUMBER_SECOND and self._is_number_first(values):
            name = WITH_NUMBER_SECOND[name]
            values = [values[1], values[0], *values[2:]]
        if name in _PROMOTING and len(values) >= 2:
            keys = self._promoted_keys(values)
            subtracted = self._find_subtracted(values) if name == "add" else None
            return (name, *keys) if subtracted is None else ("rsub", subtracted, *keys[1:])
        if name == "cat":
            return self._cat_key(values)
        if name == "as_strided":  # it reads memory, which may differ between copies of the same values
            layout = *values[0].stride(), values[0].storage_offset()
            return (name, *map(self.operand_key, [*values, layout]))
        if name == "slice":
            return (name, *map(self.operand_key, _write_out_ends(values)))
        if name in _FILLING:
            *others, filling = values
            return (name, *map(self.operand_key, others), self._filling_key(filling, values[0].dtype))
        return (name, *map(self.operand_key, values))

    def call_number(self, name: str, key: Key, result: Any) -> int:
        """Return the value number of a call with this key; an operator that reshapes is known by its result's shape."""
        if name in _RESHAPING:
            return self._numbers.number(_RESHAPING[name], key[1], self.operand_key(list(result.shape)))
        return self._numbers.number(*key)

    def note_parts(self, result: torch.Tensor, key: Key, tensors: Sequence[torch.Tensor]) -> None:
        """Note of which values, along which dim, the result of `cat` with this key consists, if it converts none."""
        _, (_, *parts), dim = key
        if all(tensor.dtype == result.dtype for tensor in tensors):
            self._numbers.note_parts(self._memory.number(result), dim, parts)

    def operand_key(self, value: Any) -> Any:
        """Return the key of an operand: a tensor's value number, the key of a scalar, or those of a list's items."""
        if isinstance(value, torch.Tensor):
            return self._memory.number(value)
        if isinstance(value, list | tuple):
            return ("list", *(self.operand_key(item) for item in value))
        if value is None:
            return None
        return self._numbers.scalar_key(value)

    def is_whole_slice(self, operands: Operands) -> bool:
        """Whether the operands of `slice` take all of a dim: eager leaves such a slice out, and a trace keeps it.

        Where they take all at the case's own sizes, and not at others, that is a condition: eager leaves the slice out
        as soon as torch concludes from other conditions that it takes all, which a later run may know and it did not.
        """
        (_, tensor), (_, dim), (_, start), (_, end), (_, step) = operands
        if start not in (0, None) or step != 1 or isinstance(start, SYMBOLIC) or isinstance(step, SYMBOLIC):
            return False
        if end is None or (isinstance(end, int) and end >= _SLICE_TO_THE_END):
            return True
        size = tensor.shape[dim]
        if isinstance(end, int) and isinstance(size, int):
            return end >= size
        return self._numbers.scalar_key(end) == self._numbers.scalar_key(size) or are_equal_sizes(end, size)

    def _cat_key(self, values: Sequence[Any]) -> Key:
        """Return the key of joined tensors, in which a part that was joined along the same dim stands as its own parts.

        A trace may take another way to the same whole: `cat([cat([a, b]), c])` is `cat([a, b, c])`.
        """
        tensors, dim = values
        dim %= max(1, tensors[0].dim())
        parts = chain.from_iterable(self._numbers.parts(self._memory.number(tensor), dim) for tensor in tensors)
        return ("cat", ("list", *parts), dim)

    def _promoted_keys(self, values: Sequence[Any]) -> Key:
        first, second, *others = values
        scalars = [self._scalar_or_none(value) for value in (first, second)]
        if scalars == [None, None]:
            return tuple(map(self.operand_key, values))
        dtype = torch.result_type(_example_of(first), _example_of(second))
        keys = [
            self.operand_key(value) if scalar is None else self._numbers.operand_scalar_key(scalar, dtype)
            for value, scalar in zip((first, second), scalars, strict=True)
        ]
        return (*keys, *map(self.operand_key, others), str(dtype))

    def _find_subtracted(self, values: Sequence[Any]) -> int | None:
        """Return the number of `x` if these are the operands of an addition of -x and a number a, which is a - x.

        A script computes `a - x` so. In another datatype than that of `x`, the two are not the same: -x may overflow.
        """
        negative, number, *alpha = values
        if alpha != [1] or self._scalar_or_none(number) is None or not isinstance(negative, torch.Tensor):
            return None
        if negative.dtype not in _EXACT_NEGATIVES or negative.dtype != torch.result_type(negative, _example_of(number)):
            return None
        made = self._numbers.key(self._memory.number(negative))
        call = self._numbers.key(made[1]) if made[0] == "result" else made
        return call[1] if call[0] == "neg" else None

    def _filling_key(self, value: Any, dtype: torch.dtype) -> Any:
        """Return the key of what fills a tensor of this datatype."""
        scalar = self._scalar_or_none(value)
        if scalar is None:
            return self.operand_key(value)
        key = self._numbers.operand_scalar_key(scalar, dtype)
        is_converted = isinstance(value, torch.Tensor) and isinstance(scalar, SYMBOLIC)
        return ("converted", key) if is_converted and dtype not in _HOLD_EVERY_SIZE else key

    def _is_number_first(self, values: Sequence[Any]) -> bool:
        """Whether a tensor without dims, of a number that is known, stands before one of other values."""
        first, second, *others = values
        if not all(isinstance(one, torch.Tensor) for one in (first, second)) or others not in ([], [1]):
            return False
        return self._scalar_or_none(first) is not None and self._scalar_or_none(second) is None

    def _scalar_or_none(self, value: Any) -> Any:
        """Return the number that an operand is, or that a tensor without dims is known to have; None for any other."""
        if isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat | torch.SymBool):
            return value
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            scalar = self._numbers.scalar(self._memory.number(value))
            if scalar is not None:
                return scalar.value
            constant = self._memory.constant(value)
            if constant is not None and constant.device.type == "cpu" and not constant.is_complex():
                with compute_for_real():
                    return constant.item()
        return None


def bind_operands(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Operands:
    """Return every argument of the operator's schema with its value; an argument that was left out has its default."""
    bound = []
    for place, argument in enumerate(func._schema.arguments):
        if not argument.kwarg_only and place < len(args):
            bound.append((argument, args[place]))
        elif argument.name in kwargs:
            bound.append((argument, kwargs[argument.name]))
        else:
            bound.append((argument, argument.default_value if argument.has_default_value() else None))
    return bound


def is_written(argument: Any) -> bool:
    """Whether the operator writes into this argument of its schema."""
    return argument.alias_info is not None and argument.alias_info.is_write


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an operand, which may be a list, in their order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, list | tuple):
        return []
    return [tensor for item in value if type(item) not in PLAIN_KINDS for tensor in tensors_in(item)]


def _write_out_ends(values: Sequence[Any]) -> list[Any]:
    """Return the operands of `slice` with the start and the end that it takes where a script gives None."""
    tensor, dim, start, end, *step = values
    is_to_the_end = end is None or (isinstance(end, int) and end >= _SLICE_TO_THE_END)
    return [tensor, dim, 0 if start is None else start, "end" if is_to_the_end else end, *step]


def has_symbols(value: Any) -> bool:
    """Whether an operand is a symbolic number, or a list with one."""
    if isinstance(value, list | tuple):
        return any(has_symbols(item) for item in value)
    return isinstance(value, SYMBOLIC)


def _example_of(value: Any) -> Any:
    """Return a plain number of the same kind as a symbolic one: torch.result_type looks at the kind alone."""
    if isinstance(value, torch.SymInt):
        return 1
    return 1.0 if isinstance(value, torch.SymFloat) else True if isinstance(value, torch.SymBool) else value
