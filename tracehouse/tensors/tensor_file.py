"""A tensor file: named tensors in the safetensors format (https://github.com/huggingface/safetensors).

A file has the length of its header in 8 bytes, the header as JSON, and the tensors' bytes one after the other. The
writer is our own, because safetensors' writer takes memory addresses, and the bytes would have to outlive the call.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import orjson

from tracehouse.tensors.tensor import Datatype, Tensor

# The format's names of the datatypes.
_NAMES = {
    Datatype.BOOL: "BOOL",
    Datatype.UINT8: "U8",
    Datatype.UINT16: "U16",
    Datatype.UINT32: "U32",
    Datatype.UINT64: "U64",
    Datatype.INT8: "I8",
    Datatype.INT16: "I16",
    Datatype.INT32: "I32",
    Datatype.INT64: "I64",
    Datatype.FP16: "F16",
    Datatype.BF16: "BF16",
    Datatype.FP32: "F32",
    Datatype.FP64: "F64",
}
DATATYPES = {name: datatype for datatype, name in _NAMES.items()}

_ABOUT = "__metadata__"
_LENGTH = struct.Struct("<Q")
_HEADER_ALIGNED_BYTES = 8


def iter_file_bytes(
    tensors: Sequence[tuple[str, Tensor]], about: Mapping[str, str] | None = None
) -> Iterator[bytes | bytearray | memoryview]:
    """Yield the bytes of a file with these named tensors, part by part. `about` has texts for its metadata."""
    header: dict[str, object] = {_ABOUT: dict(about)} if about else {}
    start = 0
    for name, tensor in tensors:
        end = start + len(tensor.data)
        header[name] = {
            "dtype": _NAMES[tensor.datatype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _HEADER_ALIGNED_BYTES)
    yield _LENGTH.pack(len(text))
    yield text
    yield from (tensor.data for _, tensor in tensors)


class TensorFile:
    """A tensor file that this project wrote: its header is trusted. `about` has the texts of its metadata."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        header = orjson.loads(file.read(length))
        self.about: dict[str, str] = header.pop(_ABOUT, {})
        self._entries = header
        self._start = _LENGTH.size + length

    def read(self, names: Iterable[str]) -> Iterator[Tensor]:
        """Yield the tensors of these names, each read when it is needed. Raises KeyError for a name that is missing."""
        for name in names:
            entry = self._entries[name]
            start, end = entry["data_offsets"]
            self._file.seek(self._start + start)
            yield Tensor(name, DATATYPES[entry["dtype"]], tuple(entry["shape"]), self._file.read(end - start))
