"""Golden cases: a few inputs with eager's outputs, kept with the artifact and replayed wherever it is loaded.

One safetensors file; a tensor's name is `<case>.<method>.input.<leaf>` or `<case>.<method>.output.<leaf>`, the leaves
named as in the contract: `0.forward.input.x`, `0.forward.output.output.1`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import safetensors.torch
import torch


@dataclass(frozen=True)
class Case:
    method: str
    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]

    @property
    def byte_size(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.inputs.values(), *self.outputs.values()))


def write(cases: Iterable[Case]) -> bytes:
    tensors: dict[str, torch.Tensor] = {}
    for number, case in enumerate(cases):
        for side, named in (("input", case.inputs), ("output", case.outputs)):
            for leaf, tensor in named.items():
                # A copy, for safetensors refuses memory that two tensors share.
                tensors[f"{number}.{case.method}.{side}.{leaf}"] = tensor.detach().clone().contiguous()
    return safetensors.torch.save(tensors)


def read(descriptor: int) -> list[Case]:
    """The cases in a file that is open. Raises what safetensors raises, where the bytes are not its format."""
    with open(descriptor, "rb") as file:
        tensors = safetensors.torch.load(file.read())
    cases: dict[int, Case] = {}
    for name, tensor in tensors.items():
        number, method, side, leaf = name.split(".", 3)
        case = cases.setdefault(int(number), Case(method, {}, {}))
        (case.inputs if side == "input" else case.outputs)[leaf] = tensor
    return [cases[number] for number in sorted(cases)]
