"""Converting tensors between torch and the protocol's bytes and datatypes."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from tracehouse.errors import InvalidTensor
from tracehouse.tensors.tensor import Datatype, Tensor, TensorSpec

DTYPES: dict[Datatype, torch.dtype] = {datatype: getattr(torch, datatype.dtype_name) for datatype in Datatype}
_DATATYPES = {dtype: datatype for datatype, dtype in DTYPES.items()}


def from_bytes(datatype: Datatype, shape: Sequence[int], data: bytes | bytearray | memoryview) -> torch.Tensor:
    """Return a tensor of this shape on the CPU with its own memory, aligned for torch.

    `data` are the values as row-major little-endian bytes. Raises InvalidTensor if their number does not fit the shape.
    """
    tensor = torch.empty(tuple(shape), dtype=DTYPES[datatype], device="cpu")
    given = memoryview(data).nbytes
    if given != tensor.nbytes:
        raise InvalidTensor(
            f"{datatype} of shape {list(shape)} has {tensor.nbytes} bytes, not {given}",
            expected=tensor.nbytes,
            actual=given,
        )
    bytes_of(tensor)[:] = np.frombuffer(data, np.uint8)
    return tensor


def to_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the tensor's values as row-major bytes. They may be its own memory: use them before the tensor changes."""
    return bytes_of(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()).data


def pack(named: Mapping[str, torch.Tensor]) -> list[Tensor]:
    """Return the tensors in the protocol's form, with bytes as `to_bytes` returns them.

    Tensors without a datatype are left out.
    """
    specs = [spec_of(name, tensor) for name, tensor in named.items()]
    return [
        Tensor(spec.name, spec.datatype, spec.shape, to_bytes(named[spec.name])) for spec in specs if spec is not None
    ]


def unpack(tensors: Iterable[Tensor], device: str = "cpu") -> dict[str, torch.Tensor]:
    """Return torch's tensors on `device` by their names. Raises InvalidTensor."""
    return {tensor.name: from_bytes(tensor.datatype, tensor.shape, tensor.data).to(device) for tensor in tensors}


def datatype_of(tensor: torch.Tensor) -> Datatype | None:
    """Return the protocol's datatype, or None for complex, quantised, sparse and nested tensors, which have none."""
    return None if tensor.layout is not torch.strided or tensor.is_nested else _DATATYPES.get(tensor.dtype)


def spec_of(name: str, tensor: torch.Tensor) -> TensorSpec | None:
    """Return a tensor's name, datatype and shape, or None if it has no datatype."""
    datatype = datatype_of(tensor)
    return None if datatype is None else TensorSpec(name=name, datatype=datatype, shape=tuple(tensor.shape))


def bytes_of(tensor: torch.Tensor) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return the memory of a tensor that is contiguous and on the CPU, which can be written to."""
    # A tensor of one element may have any stride, but view wants a stride of 1.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()
