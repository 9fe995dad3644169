"""Golden cases: a few inputs with the eager outputs, stored with the artifact and replayed wherever it is loaded.

They are one safetensors file. Its tensors are called `<case>.<method>.input.<leaf>` or `<case>.<method>.output.<leaf>`,
with the leaf's name in the contract: `0.forward.input.x`, `0.forward.output.output.1`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import safetensors

from tracehouse.tensors import tensor_file
from tracehouse.tensors.tensor import Tensor

# torch's profiling executor records the first call, and compiles for what it saw at the second and third. That compiled
# code answers all later calls, so it has to be compared as well.
CALLS_TO_SPECIALISE = 3


@dataclass(frozen=True)
class GoldenCase:
    """A call's inputs and the eager model's outputs; each tensor has its name in the contract."""

    method: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    @property
    def byte_size(self) -> int:
        """The number of bytes of all inputs and outputs."""
        return sum(len(tensor.data) for tensor in (*self.inputs, *self.outputs))


def encode(cases: Iterable[GoldenCase]) -> bytes:
    """Return the cases as the bytes of a safetensors file."""
    named = [
        (f"{number}.{case.method}.{role}.{tensor.name}", tensor)
        for number, case in enumerate(cases)
        for role, tensors in (("input", case.inputs), ("output", case.outputs))
        for tensor in tensors
    ]
    return b"".join(tensor_file.iter_file_bytes(named))


def read(descriptor: int) -> list[GoldenCase]:
    """Return the cases in the file that is open under this descriptor, and close it.

    Raises what safetensors raises if the file is not in its format.
    """
    with open(descriptor, "rb") as file:
        entries = safetensors.deserialize(file.read())  # type: ignore[no-untyped-call]
    cases: dict[int, tuple[str, list[Tensor], list[Tensor]]] = {}
    for path, tensor in entries:
        number, method, role, leaf = path.split(".", 3)
        _, inputs, outputs = cases.setdefault(int(number), (method, [], []))
        named = Tensor(leaf, tensor_file.DATATYPES[tensor["dtype"]], tuple(tensor["shape"]), tensor["data"])
        (inputs if role == "input" else outputs).append(named)
    return [GoldenCase(*cases[number]) for number in sorted(cases)]
