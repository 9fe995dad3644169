"""Tensor constants: what a method's code refers to as CONSTANTS.c0, told in few words whatever they hold."""

from typing import Any

import torch

from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.tensors import datatype_of

_VALUES_MAX = 16


def code_and_constants(method: Any) -> tuple[str, dict[str, torch.Tensor]]:
    """Its code, and the tensors that stand there as CONSTANTS, by their names."""
    code, table = method.code_with_constants
    return code, {name: tensor for name, value in table.items() if (tensor := _tensor_of(value)) is not None}


def datatype_name(tensor: torch.Tensor) -> str:
    """The protocol's word, and torch's own where it has none."""
    known = datatype_of(tensor)
    return known.value if known else str(tensor.dtype).removeprefix("torch.")


def describe_tensor(tensor: torch.Tensor) -> str:
    """`FP32 [2]: 0.5, 1`; of many values the first ones."""
    what = f"{datatype_name(tensor)} {list(tensor.shape)}"
    if datatype_of(tensor) is None or tensor.numel() == 0:
        return what
    shown = [_format_number(tensor, value) for value in tensor.detach().reshape(-1)[:_VALUES_MAX].tolist()]
    more = [f"... ({tensor.numel()} values)"] if tensor.numel() > _VALUES_MAX else []
    return f"{what}: {', '.join([*shown, *more])}"


def _tensor_of(value: Any) -> torch.Tensor | None:
    """torch hands a constant over as a number where the model's code had one beside a tensor."""
    match value:
        case torch.Tensor():
            return value
        case bool() | int():
            return torch.tensor(value)
        case float():
            return torch.tensor(value, dtype=torch.float64)
    return None


def _format_number(tensor: torch.Tensor, value: float) -> str:
    """With no more digits than a number of that datatype has."""
    if not tensor.is_floating_point() or datatype_of(tensor) is Datatype.FP64:
        return str(value)
    return f"{value:.7g}"
