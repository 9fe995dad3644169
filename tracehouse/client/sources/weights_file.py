"""The weights of a live module as a safetensors file, and the placeholders that stand for them in its pickle."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import safetensors.torch
import torch

from tracehouse.client.errors import NotSendable
from tracehouse.client.sources.pickling import Placeholder, meta_tensor

# As many as a trace request may name.
_ALLOWED_MAX = 100
_DTYPES = {
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32,
    torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
    torch.float8_e4m3fn, torch.float8_e5m2,
}  # fmt: skip
FILE = "weights.safetensors"


@dataclass(frozen=True)
class WeightsFile:
    """The file, and the trace request's `weights`. `placeholders` are by the ids of the tensors."""

    data: bytes
    request: dict[str, Any]
    placeholders: dict[int, Placeholder]
    notes: list[str]


def write_state(module: torch.nn.Module) -> WeightsFile:
    """Write what the module's state dict has. What no such file can have is left to the pickle. Raises NotSendable."""
    state = module.state_dict(keep_vars=True)
    tensors = {name: value for name, value in state.items() if _can_be_written(name, value)}
    written: dict[int, str] = {}
    for name, tensor in tensors.items():
        written.setdefault(id(tensor), name)  # another name of the same tensor needs no second copy
    left = [name for name, value in state.items() if id(value) not in written]
    if len(left) > _ALLOWED_MAX:
        raise NotSendable(
            f"{len(left)} of the model's tensors are of kinds that no file of weights can have, such as {left[0]!r} "
            f"({_kind_of(state[left[0]])}). Convert them to plain tensors first"
        )
    own = {name: tensors[name] for name in written.values()}
    storages = _shared_storages(own)
    return WeightsFile(
        data=safetensors.torch.save({name: _plain(tensor) for name, tensor in own.items()}),
        request={"file": FILE, **({"allow_missing": [*map(_as_pattern, left)]} if left else {})},
        placeholders={id(tensor): _placeholder(number, tensor, storages) for number, tensor in enumerate(own.values())},
        notes=[*_notes_of_devices(own)],
    )


def write_tensors(tensors: Mapping[str, Any]) -> bytes:
    """Return a file of a state dict that was handed in. Raises NotSendable."""
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor) or not _can_be_written(name, value):
            raise NotSendable(f"weights[{name!r}] is {_kind_of(value)}: give tensors, as model.state_dict() has them")
    return safetensors.torch.save({name: _plain(tensor) for name, tensor in tensors.items()})


def _can_be_written(name: str, value: Any) -> bool:
    """Whether the file can have it. Raises NotSendable for a tensor without values."""
    if not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
        return False
    if value.device.type == "meta":
        raise meta_tensor(f"{name!r}")
    is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
    return is_plain and value.layout is torch.strided and not value.is_nested and value.dtype in _DTYPES


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the values that lies in memory by itself, row by row."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    return plain.clone(memory_format=torch.contiguous_format)


def _placeholder(number: int, tensor: torch.Tensor, storages: Mapping[int, int]) -> Placeholder:
    storage = tensor.untyped_storage()
    shared = storages.get(storage.data_ptr())
    place = None if shared is None else (shared, storage.nbytes(), int(tensor.storage_offset()))
    return Placeholder(
        number=number,
        size=tuple(tensor.shape),
        stride=tensor.stride(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        requires_grad=tensor.requires_grad,
        is_parameter=isinstance(tensor, torch.nn.Parameter),
        attributes=dict(tensor.__dict__),
        storage=place,
    )


def _shared_storages(tensors: Mapping[str, torch.Tensor]) -> dict[int, int]:
    """Return a number for each piece of memory that several tensors share, by its address."""
    count: dict[int, int] = {}
    for tensor in tensors.values():
        address = tensor.untyped_storage().data_ptr()
        count[address] = count.get(address, 0) + 1
    return {address: number for number, address in enumerate(count) if count[address] > 1 and address}


def _notes_of_devices(tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    devices = {str(tensor.device) for tensor in tensors.values()} - {"cpu"}
    yield from (f"weights on {device} go as weights on the CPU" for device in sorted(devices))


def _as_pattern(name: str) -> str:
    """Return the pattern that fits this name alone."""
    return "".join(f"[{character}]" if character in "[*?" else character for character in name)


def _kind_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a {type(value).__name__} of {value.dtype}, {value.layout}"
    return f"a {type(value).__name__}"
