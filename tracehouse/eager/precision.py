"""Precision: the dtype to which the model and the inputs are cast, if the request asks for it."""

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
    """Return torch's dtype, or None if nothing is to be cast."""
    return None if precision is None else _DTYPES[precision]


def cast(call: Call, precision: Precision | None) -> Call:
    """Return the call with its floating-point inputs in that precision; None returns the call as it is."""
    dtype = dtype_of(precision)
    if dtype is None:
        return call
    floats = {name: tensor for name, tensor in call.tensors.items() if tensor.is_floating_point()}
    return call.with_tensors({**call.tensors, **{name: tensor.to(dtype) for name, tensor in floats.items()}})
