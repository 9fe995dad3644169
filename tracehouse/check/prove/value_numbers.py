"""Value numbers: two values that have the same number are equal, for all inputs.

This is global value numbering by hashing (Alpern, Wegman and Zadeck 1988; Click 1995): the number of a value follows
from the operator that made it and from the numbers of its operands. Both runs of a case share one table of numbers.
"""

import hashlib
import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy
import torch

from tracehouse.check.prove.evaluation import Evaluation
from tracehouse.check.prove.scalar_tensors import ScalarTensor
from tracehouse.check.prove.size_arithmetic import CannotEvaluate, conversion
from tracehouse.check.prove.symbols import SYMBOLIC, Symbols, compute, compute_for_real, expression_of
from tracehouse.torch_values.tensors import to_bytes

# A constant with at most this many elements is computed, and is identified by all of its values.
SMALL_ELEMENTS_MAX = 2**16
# A larger constant is first compared by this many of its elements, and in full only where those are equal.
_SAMPLE_ELEMENTS = 64

# Two floats are close where they differ by so many units in the last place at most.
_UNITS_MAX = 4

Key = tuple[Any, ...]


class CloseFloats(NamedTuple):
    """Two floats that an operator takes, of which one may be the other one rounded otherwise, and by how much."""

    first: sympy.Basic
    second: sympy.Basic
    relative: float


class HeldTensors:
    """The tensors that a model and its artifact hold: parameters, buffers and constants.

    Two held tensors with equal values have the same key. A large tensor whose values equal no other has a key of its
    own.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[Any, ...], Key] = {}
        self._finite: dict[Key, bool] = {}
        self._large: dict[Key, list[tuple[torch.Tensor, Key]]] = {}
        self._tensors: list[tuple[torch.Tensor, Key]] = []

    def key(self, tensor: torch.Tensor) -> Key:
        """Return the key of a strided tensor, which is computed once for each version of its values."""
        version = 0 if tensor.is_inference() else tensor._version
        identity = (tensor.data_ptr(), version, tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        key = self._keys.get(identity)
        if key is None:
            with compute_for_real():
                key = self._keys[identity] = self._key_by_values(tensor)
            self._tensors.append((tensor, key))  # while it lives, no other tensor gets its address
        return key

    def is_finite(self, key: Key) -> bool:
        """Whether this is the key of a held tensor whose elements are all finite. It is computed once, when asked."""
        if key not in self._finite:
            held = next((tensor for tensor, known in self._tensors if known == key), None)
            with compute_for_real():
                self._finite[key] = held is not None and _is_finite(held)
        return self._finite[key]

    def _key_by_values(self, tensor: torch.Tensor) -> Key:
        layout = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.device)
        if tensor.numel() <= SMALL_ELEMENTS_MAX:
            return ("held", layout, _digest(tensor))
        sample = ("held", layout, _digest(_first_elements(tensor)))
        candidates = self._large.setdefault(sample, [])
        for other, key in candidates:
            if torch.equal(other, tensor):  # a tensor with a NaN equals no tensor
                return key
        key = (*sample, len(candidates))
        candidates.append((tensor, key))
        return key


class ValueNumbers:
    """The table of value numbers that both runs of a case share: equal keys get equal numbers."""

    def __init__(self, held: HeldTensors, symbols: Symbols, samples: Sequence[Mapping[str, int]]) -> None:
        """`samples` are sizes by symbol; expressions whose values differ at one of them are different expressions."""
        # Pairs of different expressions that have equal values at all samples, and share a key for that reason.
        self.assumed_equal: list[tuple[sympy.Basic, sympy.Basic]] = []
        # Pairs of floats that are close at all samples, and share a key for that reason.
        self.assumed_close: list[CloseFloats] = []
        self._ways: dict[int, set[Any]] = {}
        self._samples = len(samples)
        self._at_samples = Evaluation(
            lambda name: np.array([sample[name] for sample in samples]), symbols.names, symbols.computations
        )
        self._held = held
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._data_sizes: dict[int, Any] = {}
        self._scalars: dict[int, ScalarTensor] = {}
        self._parts: dict[tuple[int, int], Sequence[int]] = {}
        self._expressions: dict[sympy.Basic, Key] = {}
        self._by_sample_values: dict[tuple[Any, ...], sympy.Basic] = {}
        self._operand_floats: dict[torch.dtype, dict[sympy.Basic, Key]] = {}

    def number(self, *key: Any) -> int:
        """Return the number of the value with this key: a new number where the key is new."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def key(self, number: int) -> Key:
        """Return the key to which a number was given."""
        return self._keys[number]

    def count(self) -> int:
        """Return how many numbers were given so far; the next new number is this one."""
        return len(self._keys)

    def data_size(self, number: int, make: Callable[[], Any]) -> Any:
        """Return the size that follows from values and has this number; `make` makes it if it is a new one."""
        if number not in self._data_sizes:
            self._data_sizes[number] = make()
        return self._data_sizes[number]

    def known_data_size(self, number: int) -> Any:
        """Return the size that has this number; None if it was not met yet."""
        return self._data_sizes.get(number)

    def note_scalar(self, number: int, scalar: ScalarTensor) -> None:
        """Note the ScalarTensor that the value with this number is: a number that is computed from sizes."""
        self._scalars.setdefault(number, scalar)

    def scalar(self, number: int) -> ScalarTensor | None:
        """Return the ScalarTensor that a value is; None where none is known."""
        return self._scalars.get(number)

    def note_way(self, number: int, operator: Any) -> None:
        """Note that this operator gives the value with this number."""
        self._ways.setdefault(number, set()).add(operator)

    def has_other_ways(self, operators: Container[Any]) -> bool:
        """Whether one of these operators gives a value that another operator gives, too."""
        return any(len(ways) > 1 and any(operator in operators for operator in ways) for ways in self._ways.values())

    def note_parts(self, number: int, dim: int, parts: Sequence[int]) -> None:
        """Note that the value with this number is made of these, joined along the dim."""
        self._parts[number, dim] = parts

    def parts(self, number: int, dim: int) -> Sequence[int]:
        """Return the numbers of the values of which a value is made along the dim; its own where none are known."""
        return self._parts.get((number, dim), [number])

    def held_number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor that the model or its artifact holds."""
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return self.number("held", "as it is", id(tensor))
        return self.number(*self._held.key(tensor))

    def is_finite_held(self, number: int) -> bool:
        """Whether this is the number of a tensor that the model holds, and whose elements are all finite."""
        key = self.key(number)
        return key[0] == "held" and self._held.is_finite(key)

    def scalar_key(self, value: Any) -> Key:
        """Return the key of a number, a symbolic number or another plain value among an operator's operands.

        An integer and the equal float have the same key, except -0.0, which differs from 0.
        """
        if type(value) is int:  # as most are
            return ("number", value)
        if isinstance(value, SYMBOLIC):
            return self._expression_key(expression_of(value))
        if isinstance(value, bool):
            return ("bool", value)
        if isinstance(value, int):
            return ("number", value)
        if isinstance(value, float):
            if value == int(value) if math.isfinite(value) and abs(value) < 2**53 else False:
                return ("number", int(value)) if value or math.copysign(1, value) > 0 else ("float", "-0.0")
            return ("float", repr(value))
        return ("other", str(value))

    def operand_scalar_key(self, value: Any, dtype: torch.dtype) -> Key:
        """Return the key of a number beside a tensor, if the operator's result has this datatype.

        The operator rounds a float to it first. Two floats that are then almost the same share a key.
        """
        if not isinstance(value, float | torch.SymFloat) or not dtype.is_floating_point:
            return self.scalar_key(value)
        if dtype is not torch.float64:  # float16 and bfloat16 are computed in float32
            value = compute(conversion(torch.float32), [value])
        if isinstance(value, float) and value.is_integer():
            return self.scalar_key(value)
        expression = expression_of(value) if isinstance(value, SYMBOLIC) else sympy.Float(value)
        computed_in = torch.float64 if dtype is torch.float64 else torch.float32
        floats = self._operand_floats.setdefault(computed_in, {})
        if expression not in floats:
            close_key = self._close_key(expression, floats, _UNITS_MAX * torch.finfo(computed_in).eps)
            floats[expression] = self.scalar_key(value) if close_key is None else close_key
        return floats[expression]

    def _close_key(self, expression: sympy.Basic, floats: Mapping[sympy.Basic, Key], relative: float) -> Key | None:
        """Return the key of a float that is close at all samples; None where there is none."""
        for other, key in floats.items():
            try:
                with compute_for_real():
                    is_close = bool(self._at_samples.are_close(other, expression, relative).all())
            except CannotEvaluate:
                continue
            if is_close:
                self.assumed_close.append(CloseFloats(other, expression, relative))
                return key
        return None

    def _expression_key(self, expression: sympy.Basic) -> Key:
        key = self._expressions.get(expression)
        if key is None:
            key = self._expressions[expression] = self._key_by_samples(expression)
        return key

    def _key_by_samples(self, expression: sympy.Basic) -> Key:
        if expression.is_Integer:
            return ("number", int(expression))
        try:
            with compute_for_real():
                values = np.broadcast_to(self._at_samples.value(expression), self._samples)
        except CannotEvaluate:
            return ("expression", expression)
        if self._samples < 2:
            return ("expression", expression)
        # A truth and the integer 1 are equal in Python, and are not the same operand.
        kind = "truth" if values.dtype == bool else "number"
        first = self._by_sample_values.setdefault((kind, *values.tolist()), expression)
        if first is not expression and first != expression:
            self.assumed_equal.append((first, expression))
        return ("expression", first)


def _digest(tensor: torch.Tensor) -> bytes:
    return hashlib.blake2b(to_bytes(tensor), digest_size=16).digest()


def _is_finite(tensor: torch.Tensor) -> bool:
    """Whether all elements are finite, and their sum is too: that takes far less time than to look at each."""
    is_narrow = tensor.dtype in (torch.float16, torch.bfloat16)  # a sum soon exceeds what they hold
    return bool(tensor.sum(dtype=torch.float32 if is_narrow else None).isfinite())


def _first_elements(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    while flat.dim() > 1:
        flat = flat[0]
    return flat[:_SAMPLE_ELEMENTS]
