"""Inputs: the torch values of the example inputs that a trace request describes."""

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
import torch

from tracehouse.eager import safetensors_file
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error
from tracehouse.errors import InputsUnreadable
from tracehouse.introspection import user_lines
from tracehouse.spec.example_inputs import FileTensor, InlineTensor, RandomTensor, TupleInput
from tracehouse.spec.image_format import ImageFormat
from tracehouse.tensors.tensor import Datatype
from tracehouse.torch_values.images import ImageUnreadable, read_image
from tracehouse.torch_values.tensors import DTYPES, datatype_of, from_bytes

_KEYS_MAX = 50


class InputFiles:
    """The uploaded files that inputs refer to. `open_file` opens one by its name; each is read once."""

    def __init__(self, open_file: Callable[[str], BinaryIO]) -> None:
        self._open = open_file
        self._read: dict[str, dict[str | None, torch.Tensor]] = {}

    def tensor(self, reference: FileTensor) -> torch.Tensor:
        """Return a copy of the tensor on the CPU, contiguous, which no other input shares. Raises InputsUnreadable."""
        if reference.file not in self._read:
            self._read[reference.file] = _read_tensors(self._open(reference.file), reference.file)
        found = self._read[reference.file]
        key = reference.key if reference.key is not None or len(found) != 1 else next(iter(found))
        if key not in found:
            keys = [name for name in found if name is not None][:_KEYS_MAX]
            wanted = "no key was given" if key is None else f"there is no {key!r}"
            listed = f" ({', '.join(keys)})" if keys else ""
            raise InputsUnreadable(
                f"{reference.file!r} has {len(found)} tensors{listed}, and {wanted}",
                file=reference.file, key=key, keys=keys, remedy="name the tensor under `key`",
            )  # fmt: skip
        tensor = found[key]
        if datatype_of(tensor) is None:
            raise InputsUnreadable(
                f"a tensor in {reference.file!r} is {tensor.dtype}, for which the protocol has no datatype",
                file=reference.file,
                key=key,
            )
        # Row-major, because the artifact is only called with row-major tensors.
        return tensor.detach().clone(memory_format=torch.contiguous_format)

    def image(self, file: str, wanted: ImageFormat) -> torch.Tensor:
        """Return the picture in the file on the CPU. Raises InputsUnreadable, and LimitExceeded if memory runs out."""
        try:
            return read_image(self._open(file), wanted)
        except ImageUnreadable as error:
            raise InputsUnreadable(
                f"{file!r} cannot be read: {error}", file=file,
                remedy="send a whole PNG or JPEG file with 8 bits for each channel, in colours or grey",
            ) from error  # fmt: skip
        except (MemoryError, RuntimeError) as error:  # torch's is a RuntimeError
            if is_out_of_memory(error):
                raise out_of_memory_error(error) from error
            raise


def materialise(tree: Any, files: InputFiles, device: str = "cpu") -> Any:
    """Return the torch value of an input tree with its tensors on `device`. The values are the same on every device.

    Raises InputsUnreadable, and LimitExceeded if memory runs out.
    """
    match tree:
        case InlineTensor():
            return from_bytes(tree.datatype, tree.shape, tree.pack()).to(device)
        case RandomTensor():
            return draw(tree).to(device)
        case FileTensor():
            return files.tensor(tree).to(device)
        case TupleInput():
            return tuple(materialise(item, files, device) for item in tree.tuple)
        case list():
            return [materialise(item, files, device) for item in tree]
        case dict():
            return {key: materialise(item, files, device) for key, item in tree.items()}
    return tree


def draw(wanted: RandomTensor) -> torch.Tensor:
    """Return random values of the wanted shape on the CPU, always the same for the same request.

    Floats are standard normal, or uniform in [low, high) if a range is given. Integers are uniform in [low, high), by
    default in [0, 2). Raises InputsUnreadable if the datatype cannot have these integers.
    """
    generator = torch.Generator().manual_seed(wanted.random.seed)
    with torch.device("cpu"):  # the source may have changed torch's default device
        if wanted.datatype is Datatype.BOOL:
            return torch.randint(0, 2, wanted.shape, generator=generator).bool()
        if wanted.datatype.is_integer:
            return _draw_integers(wanted, generator)
        return _draw_floats(wanted, generator)


def _draw_integers(wanted: RandomTensor, generator: torch.Generator) -> torch.Tensor:
    dtype, low, high = DTYPES[wanted.datatype], wanted.random.low, wanted.random.high
    first, last = (0, 2) if low is None or high is None else (int(low), int(high))
    if not torch.iinfo(dtype).min <= first < last <= min(torch.iinfo(dtype).max + 1, 2**63 - 1):
        raise InputsUnreadable(
            f"no {wanted.datatype} can be drawn from [{first}, {last})", datatype=wanted.datatype.value
        )
    return torch.randint(first, last, wanted.shape, generator=generator, dtype=torch.int64).to(dtype)


def _draw_floats(wanted: RandomTensor, generator: torch.Generator) -> torch.Tensor:
    dtype, low, high = DTYPES[wanted.datatype], wanted.random.low, wanted.random.high
    precise = torch.float64 if wanted.datatype is Datatype.FP64 else torch.float32
    if low is None or high is None:
        return torch.randn(wanted.shape, generator=generator, dtype=precise).to(dtype)
    return (torch.rand(wanted.shape, generator=generator, dtype=precise) * (high - low) + low).to(dtype)


def _read_tensors(file: BinaryIO, name: str) -> dict[str | None, torch.Tensor]:
    """Return the file's tensors by their keys. A file with one bare tensor, such as a `.npy`, has it under None."""
    try:
        return _tensors(_load_file(file, name.lower()))
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory_error(error) from error
        raise InputsUnreadable(f"{name!r} cannot be read: {user_lines.error_text(error)}", file=name) from error


def _load_file(file: BinaryIO, name: str) -> Any:
    if name.endswith(".safetensors"):
        return safetensors_file.load(file)
    if name.endswith((".npz", ".npy")):
        loaded = np.load(file, allow_pickle=False)
        return {key: loaded[key] for key in loaded.files} if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    return torch.load(file, map_location="cpu", weights_only=True)


def _tensors(loaded: Any) -> dict[str | None, torch.Tensor]:
    if isinstance(loaded, Mapping):
        return {str(key): _tensor(value) for key, value in loaded.items()}
    if isinstance(loaded, list | tuple):
        return {str(index): _tensor(value) for index, value in enumerate(loaded)}
    return {None: _tensor(loaded)}


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray):
        # numpy has arrays of either byte order, torch only tensors of the machine's.
        return torch.from_numpy(np.ascontiguousarray(value.astype(value.dtype.newbyteorder("=")))).reshape(value.shape)
    raise TypeError(f"it holds a {type(value).__name__}, and may hold only tensors")
