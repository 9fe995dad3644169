"""Golden cases: a few inputs with eager's outputs, kept with the artifact and replayed wherever it is loaded.

One safetensors file; a tensor's name is `<case>.<method>.input.<leaf>` or `<case>.<method>.output.<leaf>`, the leaves
named as in the contract: `0.forward.input.x`, `0.forward.output.output.1`.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
import safetensors

from service.domain.tensor import Datatype, Tensor

# As the format calls them.
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
_DATATYPES = {name: datatype for datatype, name in _NAMES.items()}
_HEADER_ALIGNED_BYTES = 8
# torch's profiling executor records the first call, and specialises on the second and third: what answers from then on
# is to be proved as well.
CALLS_TO_SPECIALISE = 3


@dataclass(frozen=True)
class Case:
    method: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    @property
    def byte_size(self) -> int:
        return sum(len(tensor.data) for tensor in (*self.inputs, *self.outputs))


def write(cases: Iterable[Case]) -> bytes:
    """By hand: safetensors' own writer takes addresses, and the bytes must outlive the call."""
    header, parts, start = {}, [], 0
    for number, case in enumerate(cases):
        for side, tensors in (("input", case.inputs), ("output", case.outputs)):
            for tensor in tensors:
                end = start + len(tensor.data)
                header[f"{number}.{case.method}.{side}.{tensor.name}"] = {
                    "dtype": _NAMES[tensor.datatype],
                    "shape": list(tensor.shape),
                    "data_offsets": [start, end],
                }
                parts.append(tensor.data)
                start = end
    text = orjson.dumps(header)
    text += b" " * (-len(text) % _HEADER_ALIGNED_BYTES)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def read(descriptor: int) -> list[Case]:
    """The cases in a file that is open. Raises what safetensors raises, where the bytes are not its format."""
    with open(descriptor, "rb") as file:
        found = safetensors.deserialize(file.read())  # type: ignore[no-untyped-call]
    cases: dict[int, tuple[str, list[Tensor], list[Tensor]]] = {}
    for path, tensor in found:
        number, method, side, leaf = path.split(".", 3)
        _, inputs, outputs = cases.setdefault(int(number), (method, [], []))
        kept = Tensor(leaf, _DATATYPES[tensor["dtype"]], tuple(tensor["shape"]), tensor["data"])
        (inputs if side == "input" else outputs).append(kept)
    return [Case(*cases[number]) for number in sorted(cases)]
