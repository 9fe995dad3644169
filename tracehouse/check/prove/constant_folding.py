"""Constant folding: an operator on constants alone is computed, so that a table that the model holds equals the same
table computed anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tracehouse.check.prove.operand_keys import has_symbols, tensors_in
from tracehouse.check.prove.symbols import compute_for_real
from tracehouse.check.prove.value_numbers import SMALL_ELEMENTS_MAX

_FACTORIES = {"arange", "full", "zeros", "ones", "scalar_tensor", "linspace", "eye"}

ConstantOf = Callable[[torch.Tensor], torch.Tensor | None]


def fold(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], constant_of: ConstantOf) -> torch.Tensor | None:
    """Return what the operator gives for constants that are not large; None where an operand is no constant.

    `constant_of` returns a real tensor with the values of a tensor, and None where these are not known.
    """
    tensors = list(tensors_in([*args, *kwargs.values()]))
    if not tensors and func._schema.name.rpartition("::")[2] not in _FACTORIES:
        return None
    if any(tensor.dim() and not _is_small(tensor) for tensor in tensors):
        return None
    constants = [constant_of(tensor) for tensor in tensors]
    if any(constant is None for constant in constants) or has_symbols([*args, *kwargs.values()]):
        return None
    try:
        with compute_for_real():
            result = func(
                *(_constants_in(value, constant_of) for value in args),
                **{key: _constants_in(value, constant_of) for key, value in kwargs.items()},
            )
            if not isinstance(result, torch.Tensor) or not _is_small(result):
                return None
            return result.clone(memory_format=torch.preserve_format)
    except Exception:  # noqa: BLE001 - an operator refuses these values: then it is numbered like any other
        return None


def _constants_in(value: Any, constant_of: ConstantOf) -> Any:
    if isinstance(value, torch.Tensor):
        return constant_of(value)
    if isinstance(value, list | tuple):
        return [_constants_in(item, constant_of) for item in value]
    return value


def _is_small(tensor: torch.Tensor) -> bool:
    elements = tensor.numel()
    return type(elements) is int and elements <= SMALL_ELEMENTS_MAX
