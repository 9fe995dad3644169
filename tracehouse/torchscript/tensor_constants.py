"""Tensor constants: what a method's code refers to as CONSTANTS.c0, and short texts of tensors."""

from typing import Any

import torch

from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import datatype_of

_VALUES_MAX = 16


def code_and_constants(method: Any) -> tuple[str, dict[str, torch.Tensor]]:
    """Return a compiled method's code, and the tensors that it refers to as CONSTANTS, by their names."""
    code, table = method.code_with_constants
    return code, {name: tensor for name, value in table.items() if (tensor := _tensor_of(value)) is not None}


def datatype_name(tensor: torch.Tensor) -> str:
    """Return the protocol's name of a tensor's datatype, or torch's if the protocol has none."""
    known = datatype_of(tensor)
    return known.value if known else str(tensor.dtype).removeprefix("torch.")


def describe_tensor(tensor: torch.Tensor) -> str:
    """Return a tensor's datatype, shape and first values: `FP32 [2]: 0.5, 1`."""
    what = f"{datatype_name(tensor)} {list(tensor.shape)}"
    if datatype_of(tensor) is None or tensor.numel() == 0:
        return what
    shown = [_format_number(tensor, value) for value in tensor.detach().reshape(-1)[:_VALUES_MAX].tolist()]
    more = [f"... ({tensor.numel()} values)"] if tensor.numel() > _VALUES_MAX else []
    return f"{what}: {', '.join([*shown, *more])}"


def _tensor_of(value: Any) -> torch.Tensor | None:
    """Return a constant as a tensor. torch gives a number if the code has a number there; None for anything else."""
    match value:
        case torch.Tensor():
            return value
        case bool() | int():
            return torch.tensor(value)
        case float():
            return torch.tensor(value, dtype=torch.float64)
    return None


def _format_number(tensor: torch.Tensor, value: float) -> str:
    """Return a number with no more digits than its datatype has: seven, or all for FP64."""
    if not tensor.is_floating_point() or datatype_of(tensor) is Datatype.FP64:
        return str(value)
    return f"{value:.7g}"
