"""Precision: the dtype that a request has its model and its inputs cast to."""

import torch

from tracehouse.eager.call import Call
from tracehouse.spec.trace_spec import Precision

_DTYPES: dict[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def dtype_of(precision: Precision | None) -> torch.dtype | None:
    """None where everything stays as it was given."""
    return None if precision is None else _DTYPES[precision]


def cast(call: Call, precision: Precision | None) -> Call:
    """The call with its floating-point inputs in that precision."""
    dtype = dtype_of(precision)
    if dtype is None:
        return call
    floats = {name: tensor for name, tensor in call.tensors.items() if tensor.is_floating_point()}
    return call.with_tensors({**call.tensors, **{name: tensor.to(dtype) for name, tensor in floats.items()}})
