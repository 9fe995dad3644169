"""Golden cases: a few inputs with eager's outputs, kept with the artifact and replayed wherever it is loaded.

One safetensors file; a tensor's name is `<case>.<method>.input.<leaf>` or `<case>.<method>.output.<leaf>`, the leaves
named as in the contract: `0.forward.input.x`, `0.forward.output.output.1`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import safetensors

from tracehouse.tensors import tensor_file
from tracehouse.tensors.tensor import Tensor

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


def encode(cases: Iterable[Case]) -> bytes:
    named = [
        (f"{number}.{case.method}.{side}.{tensor.name}", tensor)
        for number, case in enumerate(cases)
        for side, tensors in (("input", case.inputs), ("output", case.outputs))
        for tensor in tensors
    ]
    return b"".join(tensor_file.iter_file_bytes(named))


def read(descriptor: int) -> list[Case]:
    """The cases in a file that is open. Raises what safetensors raises, where the bytes are not its format."""
    with open(descriptor, "rb") as file:
        found = safetensors.deserialize(file.read())  # type: ignore[no-untyped-call]
    cases: dict[int, tuple[str, list[Tensor], list[Tensor]]] = {}
    for path, tensor in found:
        number, method, side, leaf = path.split(".", 3)
        _, inputs, outputs = cases.setdefault(int(number), (method, [], []))
        kept = Tensor(leaf, tensor_file.DATATYPES[tensor["dtype"]], tuple(tensor["shape"]), tensor["data"])
        (inputs if side == "input" else outputs).append(kept)
    return [Case(*cases[number]) for number in sorted(cases)]
