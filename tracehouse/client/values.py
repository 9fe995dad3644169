"""Values that a client sends and gets: arrays of NumPy and tensors of torch, with the protocol's datatypes.

torch is loaded only by who hands in a tensor of it.
"""

import sys
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracehouse.client.errors import NotSendable
from tracehouse.tensors.tensor import Datatype, Tensor, array

# NumPy has no bfloat16.
_OF_NUMPY = {datatype.dtype_name: datatype for datatype in Datatype if datatype is not Datatype.BF16}


def is_torch_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, which is not loaded for this."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor or an array."""
    return isinstance(value, np.ndarray) or is_torch_tensor(value)


def to_tensor(name: str, value: Any) -> Tensor:
    """Return a tensor or an array in the protocol's form. Raises NotSendable."""
    return _from_torch(name, value) if is_torch_tensor(value) else _from_numpy(name, value)


def to_numpy(tensor: Tensor, *, is_complex: bool = False) -> NDArray[Any]:
    """Return an array with memory of its own. bfloat16, which NumPy lacks, becomes float32."""
    flat: NDArray[Any] = np.array(array(tensor.datatype, tensor.data)).reshape(tensor.shape)
    return flat[..., 0] + 1j * flat[..., 1] if is_complex else flat


def to_torch(tensor: Tensor, *, is_complex: bool = False) -> Any:
    """Return a tensor of torch."""
    made = import_module("tracehouse.torch_values.tensors").from_bytes(tensor.datatype, tensor.shape, tensor.data)
    return sys.modules["torch"].view_as_complex(made.contiguous()) if is_complex else made


def _from_numpy(name: str, value: NDArray[Any]) -> Tensor:
    datatype = _OF_NUMPY.get(value.dtype.newbyteorder("=").name)
    if datatype is None:
        raise NotSendable(
            f"{name} is an array of {value.dtype}, which no input has: convert it to numbers or booleans first"
            f"{_advice_on_complex(value.dtype.kind == 'c')}"
        )
    plain = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    return Tensor(name, datatype, value.shape, plain.tobytes())


def _from_torch(name: str, value: Any) -> Tensor:
    tensors = import_module("tracehouse.torch_values.tensors")
    if value.device.type == "meta":
        raise NotSendable(
            f"{name} is on the meta device, where tensors have no values: make it on the CPU, such as "
            f"torch.randn({', '.join(map(str, value.shape))})"
        )
    datatype = tensors.datatype_of(value)
    if datatype is None:
        raise NotSendable(f"{name} is {_describe(value)}, which no input has: {_advice(value)}")
    return Tensor(name, datatype, tuple(value.shape), bytes(tensors.to_bytes(value)))


def _describe(value: Any) -> str:
    kind = "a nested tensor" if value.is_nested else f"a tensor of {value.dtype}"
    layout = str(value.layout).removeprefix("torch.")
    return kind if layout == "strided" else f"{kind} in the layout {layout}"


def _advice(value: Any) -> str:
    if value.is_nested:
        return "pad it: torch.nested.to_padded_tensor(x, 0.0)"
    if str(value.layout) != "torch.strided":
        return "send it as a dense tensor (x.to_dense()), and make it sparse inside of forward"
    if value.is_quantized:
        return "send it as numbers (x.dequantize()), and quantise it inside of forward"
    return "convert it to numbers or booleans first" + _advice_on_complex(value.is_complex())


def _advice_on_complex(is_complex: bool) -> str:
    how = "; send its real and imaginary parts (torch.view_as_real), and put them together inside of forward"
    return how if is_complex else ""
